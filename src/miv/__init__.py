"""Multiple instance verification: does the bag hold something of the query's class, and what shows it?"""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

__version__ = "0.2.0"

# Where each public name lives. A name is imported when it is first asked for, so that `import miv` and
# `miv --help` do not wait for torch.
_NAMES = {
    "miv.backbones": ("Backbone", "create_backbone", "register_backbone"),
    "miv.bags": ("Bags",),
    "miv.checking": ("CheckedAnswer", "check"),
    "miv.data": ("Exemplar", "ExemplarSet", "InstancePool"),
    "miv.data.batches": ("collate_exemplars",),
    "miv.errors": ("MIVError",),
    "miv.evaluation.report": ("report",),
    "miv.evaluation.verifier_audit": ("audit",),
    "miv.evaluation.workflows": ("calibrate", "evaluate"),
    "miv.gallery": ("Gallery",),
    "miv.interop.sklearn": ("MIVClassifier",),
    "miv.poolings": ("Pooling", "PoolingOutput", "create_pooling", "list_poolings", "register_pooling"),
    "miv.training.train": ("TrainingRun", "train"),
    "miv.verifier.network": ("Verification", "Verifier"),
    "miv.verifier.verdict": ("Verdict", "Verdicts"),
    "miv.verifier.zero_shot": ("verify",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

if TYPE_CHECKING:
    from miv.backbones import (
        Backbone as Backbone,
        create_backbone as create_backbone,
        register_backbone as register_backbone,
    )
    from miv.bags import Bags as Bags
    from miv.checking import CheckedAnswer as CheckedAnswer, check as check
    from miv.data import Exemplar as Exemplar, ExemplarSet as ExemplarSet, InstancePool as InstancePool
    from miv.data.batches import collate_exemplars as collate_exemplars
    from miv.errors import MIVError as MIVError
    from miv.evaluation.report import report as report
    from miv.evaluation.verifier_audit import audit as audit
    from miv.evaluation.workflows import calibrate as calibrate, evaluate as evaluate
    from miv.gallery import Gallery as Gallery
    from miv.interop.sklearn import MIVClassifier as MIVClassifier
    from miv.poolings import (
        Pooling as Pooling,
        PoolingOutput as PoolingOutput,
        create_pooling as create_pooling,
        list_poolings as list_poolings,
        register_pooling as register_pooling,
    )
    from miv.training.train import TrainingRun as TrainingRun, train as train
    from miv.verifier.network import Verification as Verification, Verifier as Verifier
    from miv.verifier.verdict import Verdict as Verdict, Verdicts as Verdicts
    from miv.verifier.zero_shot import verify as verify

__all__ = ["__version__", *sorted(_HOMES)]
__getattr__, __dir__ = lazy_exports(__name__, {**_HOMES, "__version__": __name__})
