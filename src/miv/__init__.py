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
    from miv.backbones import Backbone as Backbone
    from miv.backbones import create_backbone as create_backbone
    from miv.backbones import register_backbone as register_backbone
    from miv.bags import Bags as Bags
    from miv.checking import CheckedAnswer as CheckedAnswer
    from miv.checking import check as check
    from miv.data import Exemplar as Exemplar
    from miv.data import ExemplarSet as ExemplarSet
    from miv.data import InstancePool as InstancePool
    from miv.data.batches import collate_exemplars as collate_exemplars
    from miv.errors import MIVError as MIVError
    from miv.evaluation.report import report as report
    from miv.evaluation.verifier_audit import audit as audit
    from miv.evaluation.workflows import calibrate as calibrate
    from miv.evaluation.workflows import evaluate as evaluate
    from miv.gallery import Gallery as Gallery
    from miv.interop.sklearn import MIVClassifier as MIVClassifier
    from miv.poolings import Pooling as Pooling
    from miv.poolings import PoolingOutput as PoolingOutput
    from miv.poolings import create_pooling as create_pooling
    from miv.poolings import list_poolings as list_poolings
    from miv.poolings import register_pooling as register_pooling
    from miv.training.train import TrainingRun as TrainingRun
    from miv.training.train import train as train
    from miv.verifier.network import Verification as Verification
    from miv.verifier.network import Verifier as Verifier
    from miv.verifier.verdict import Verdict as Verdict
    from miv.verifier.verdict import Verdicts as Verdicts
    from miv.verifier.zero_shot import verify as verify

__all__ = ["__version__", *sorted(_HOMES)]
__getattr__, __dir__ = lazy_exports(__name__, {**_HOMES, "__version__": __name__})
