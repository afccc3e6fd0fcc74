"""The verifier: backbone → LayerNorm → pooling → similarity → logit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelHubMixin
from torch import Tensor, nn

from miv.bags import Bags, as_bags
from miv.bags.borders import refuse_nested
from miv.data.pool import InstanceForm
from miv.errors import MIVError
from miv.files.images import Fit
from miv.files.weights import FORMAT, FORMAT_VERSION
from miv.poolings import Pooling
from miv.poolings.pooling_base import Start
from miv.runtime import Progress
from miv.verifier.decisions import OperatingPoint
from miv.verifier.out_of_distribution import OutOfDistributionLimit
from miv.verifier.parts import backbone_of, describe_backbone, describe_pooling, pooling_of
from miv.verifier.references import Pairs, ReferenceRule
from miv.verifier.verdict import Verdict, Verdicts, WitnessMethod


@dataclass(frozen=True)
class Verification:
    """The output for ``B`` exemplars with ``T`` targets in total.

    Args:
        logit: ``(B,)``; 0 or more means that the bag holds something of the query's class.
        probability: ``(B,)``, the sigmoid of the logit, regardless of the operating point; a ``Verdict`` has the
            calibrated probability.
        attention: ``(T,)``, the mean over heads, sums to 1 in each bag; ``None`` if the pooling has no attention.
        attention_by_head: ``(T, h)``, or ``None``.
        score: ``(T,)``, what the pooling chooses targets by, if its attention keeps only the choice; else ``None``.
        query_vector: ``(B, C)``, the query as the pooling compares it.
        bag_vector: ``(B, C)``, the bag as the pooling compares it.
        ptr: ``(B + 1,)``, the borders between the bags.
    """

    logit: Tensor
    probability: Tensor
    attention: Tensor | None
    attention_by_head: Tensor | None
    query_vector: Tensor
    bag_vector: Tensor
    ptr: Tensor
    score: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logit)

    def attention_of(self, exemplar: int) -> Tensor:
        """The attention ``(N,)`` of each target of one exemplar."""
        if self.attention is None:
            raise MIVError("This pooling has no attention. `miv poolings` lists the poolings that do.")
        if not 0 <= exemplar < len(self):
            raise MIVError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        return self.attention[int(self.ptr[exemplar]) : int(self.ptr[exemplar + 1])]


def combined(pairs: Pairs, answers: Verification, bags: Bags, rule: ReferenceRule) -> Verification:
    """One answer per query from the answers to all pairs.

    Attention, score and the two vectors are those of the pairs, weighted like their logits.
    """
    logit = rule.combine(*pairs.logits(answers.logit), pairs.references)
    share = pairs.shares(rule, answers.logit)
    of_instance = pairs.bags.expand(share)
    by_head = answers.attention_by_head
    if by_head is not None:
        by_head = pairs.summed(by_head * of_instance[:, None], bags)
    return Verification(
        logit=logit,
        probability=logit.sigmoid(),
        attention=None if by_head is None else by_head.mean(dim=1),
        attention_by_head=by_head,
        query_vector=pairs.by_query(answers.query_vector * share[:, None]),
        bag_vector=pairs.by_query(answers.bag_vector * share[:, None]),
        ptr=bags.ptr,
        score=None if answers.score is None else pairs.summed(answers.score * of_instance, bags),
    )


_MODEL_CARD = """---
{{ card_data }}
---
A verifier for multiple instance verification. Load it with `miv.Verifier.from_pretrained`.
"""


class Verifier(
    nn.Module,
    ModelHubMixin,
    library_name="miv",
    license="apache-2.0",
    tags=["multiple-instance-verification"],
    model_card_template=_MODEL_CARD,
):
    """Answers whether a bag holds something of the query's class, and which of its instances show it.

    Args:
        pooling: a name from ``miv.list_poolings()``, or a ``miv.Pooling``.
        backbone: ``features`` if the instances are already vectors, ``compact_cnn`` for small grey images, ``hog_cnn``
            for few images, ``hog`` and ``pixels`` for images without learning, ``hf:<name or folder>`` for
            texts and images, ``tokens:minilm`` for texts with the pooling ``maxsim``, ``sentence_tokens:minilm`` with
            ``cap_tokens``, or a name that you registered; or any ``torch.nn.Module`` that
            maps instances to features ``(N, C)``; see ``miv.Backbone``.
        channels: length of the vectors, for the backbone ``features`` and for your own module if it has no attribute
            ``channels``.
        pooling_options: options of ``miv.create_pooling``, such as ``{"heads": 4}``.
        backbone_options: options of the backbone, such as ``{"size": "large"}``.
        instances: form of the training images, such as ``{"kind": "image", "height": 28, "width": 28,
            "mode": "L"}``, so that image files can be converted to it; ``"steps"`` may list how, as in
            ``miv.files.images``.
        start: ``similar`` scales features to one length and starts with a cosine similarity, which helps with few
            exemplars; ``paper`` uses the authors' LayerNorm and weights with random signs. The default is ``similar``;
            a pooling given as a module keeps its own start.
        references: how to combine several references of a query, such as ``{"sharpness": 0.25, "mean_share": 0.25}``;
            see ``ReferenceRule``. Training on exemplars with references fits it.

    >>> verifier = Verifier("cap_dba_l2", channels=8)
    >>> bags = Bags.from_list([torch.randn(5, 8), torch.randn(2, 8)])
    >>> answer = verifier(torch.randn(2, 8), bags)
    >>> answer.probability.shape, answer.attention_of(1).shape
    (torch.Size([2]), torch.Size([2]))
    """

    def __init__(
        self,
        pooling: str | Pooling = "cap_dba_l2",
        backbone: str | nn.Module = "features",
        channels: int | None = None,
        pooling_options: dict[str, Any] | None = None,
        backbone_options: dict[str, Any] | None = None,
        instances: dict[str, Any] | None = None,
        start: Start | None = None,
        references: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone_of(backbone, channels, backbone_options)
        self.pooling, start = pooling_of(pooling, self.backbone.channels, start, pooling_options)
        self.instances = None if instances is None else InstanceForm.checked(instances)
        self.operating_point = OperatingPoint.default()
        self.unlike: OutOfDistributionLimit | None = None
        self.loaded_from: str | None = None  # the name or folder given to from_pretrained
        # What the mixin writes to config.json; its default would lack the two keys that name the format.
        self._hub_mixin_config = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "pooling": pooling,
            "start": start,
            "backbone": backbone,
            "channels": channels,
            "pooling_options": pooling_options or {},
            **describe_backbone(self.backbone),
            **({} if isinstance(pooling, str) else describe_pooling(self.pooling)),
            **({} if self.instances is None else {"instances": self.instances.document()}),
        }
        self.reference_rule = ReferenceRule()
        if references is not None:
            self.set_reference_rule(ReferenceRule.checked(references))

    def set_reference_rule(self, rule: ReferenceRule) -> None:
        """Combine the references of a query by this rule from now on; it is saved with the verifier."""
        self.reference_rule = rule
        self._hub_mixin_config = {**self.configuration, "references": rule.document()}

    @property
    def configuration(self) -> dict[str, Any]:
        """The content of ``config.json``: names and options of pooling and backbone."""
        return dict(self._hub_mixin_config)  # type: ignore[arg-type]  # always a dict here

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.pooling.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights; features must have the same dtype."""
        return next(self.pooling.parameters()).dtype

    def forward(self, query: Tensor | Bags, bags: Bags) -> Verification:
        """Embed the queries ``(B, ...)`` and the instances of the bags ``(T, ...)``, and verify.

        Args:
            query: one query per bag, in the form that the backbone takes; or ``Bags`` with the references of each
                query.
            bags: the targets.
        """
        if isinstance(query, Bags) and not isinstance(bags, Bags):
            raise MIVError(
                f"query is a Bags, and bags is a {type(bags).__name__}. Expected the query first: a tensor (B, ...), "
                "or Bags of references; then the bags."
            )
        asked = query.values if isinstance(query, Bags) else query
        if not isinstance(asked, Tensor):
            raise MIVError(f"query is a {type(query).__name__}. Expected a tensor (B, ...) with one query per bag.")
        refuse_nested(asked, "query")
        bags = as_bags(bags)
        if len(query) != len(bags):
            raise MIVError(f"There are {len(query)} queries and {len(bags)} bags. Expected one query per bag.")
        if asked.dtype != bags.dtype:
            raise MIVError(f"The queries are {asked.dtype}, the bags {bags.dtype}. Expected one dtype.")
        if asked.shape[1:] != bags.values.shape[1:]:
            raise MIVError(
                f"A query is {tuple(asked.shape[1:])}, an instance of the bags {tuple(bags.values.shape[1:])}. "
                "Expected one shape."
            )
        features = self.backbone(torch.cat([asked, bags.values]))  # (B + T, C), all embedded the same way
        of_query, targets = features[: len(asked)], bags.with_values(features[len(asked) :])
        return self.verify_features(query.with_values(of_query) if isinstance(query, Bags) else of_query, targets)

    def verify_features(self, query: Tensor | Bags, bags: Bags) -> Verification:
        """Verify features that are already embedded: queries ``(B, C)`` and bags of values ``(T, C)``.

        The queries may be ``Bags`` with the references of each, values ``(R, C)``; ``reference_rule`` combines them.
        """
        bags = as_bags(bags)
        if isinstance(query, Bags):
            if len(query) == len(query.values):  # one reference each
                return self.verify_features(query.values, bags)
            pairs = Pairs.of(query, bags)
            return combined(pairs, self.verify_features(pairs.query, pairs.bags), bags, self.reference_rule)
        pooled = self.pooling(query, bags)
        logit = self.pooling.similarity(pooled.query_vector, pooled.bag_vector)  # (B,)
        return Verification(
            logit=logit,
            probability=logit.sigmoid(),
            attention=None if pooled.attention is None else pooled.attention.mean(dim=1),
            attention_by_head=pooled.attention,
            query_vector=pooled.query_vector,
            bag_vector=pooled.bag_vector,
            ptr=bags.ptr,
            score=pooled.score,
        )

    def verify(
        self, query: Any, bag: Any, *, resize: Fit | None = None, witnesses: WitnessMethod | None = None
    ) -> Verdict:
        """Does the bag hold something of the query's class, and which of its instances show it?

        Args:
            query: the kind of instance that the verifier was trained on: an image (a file, a Pillow image, or an array
                ``(H, W)`` or ``(H, W, 3)`` uint8), a text, or a vector ``(C,)``. A list of them is several references,
                known instances of one class; for vectors also an array ``(R, C)``.
            bag: several of the same kind: a list, an array with one row per instance, the path of a folder with one
                file per instance (images, ``.txt`` or ``.npy``), or for texts the path of a ``.txt`` file with one
                text per line.
            resize: how to resize an image that differs in size from the training images: ``stretch`` it, ``crop`` its
                centre, or ``pad`` it with black. Without it, files and Pillow images are converted as the training
                images were (black and white, size), if the verifier records how; else such an image is an error.
            witnesses: how to choose witnesses: ``attention``, ``alone`` or ``leave_one_out`` (see
                ``miv.verifier.explain``), or ``none`` for the verdict only. The default is the method that the witness
                rule was calibrated on; without calibration, attention if the pooling has it, else leave-one-out. For
                another method, the default rule chooses witnesses, with a warning.

        >>> verifier = Verifier("baseline", channels=2)
        >>> verdict = verifier.verify([1.0, 0.0], [[0.0, 1.0], [1.0, 0.1], [0.5, 0.5]])
        >>> verdict.size, verdict.threshold, verdict.attention.shape
        (3, 0.5, (3,))
        """
        from miv.verifier.reading import ALONE
        from miv.verifier.verifying import BatchVerifier

        return BatchVerifier(self, resize, witnesses).verify([query], [bag], ALONE, show=True)[0]

    def verify_many(
        self,
        queries: Any,
        bags: Any,
        *,
        resize: Fit | None = None,
        witnesses: WitnessMethod | None = None,
        progress: Progress | None = None,
    ) -> Verdicts:
        """Verify ``E`` queries and ``E`` bags, each as ``verify`` takes one, and embed equal images and texts once."""
        from miv.verifier.verifying import BatchVerifier

        return BatchVerifier(self, resize, witnesses, progress).verify(queries, bags, show=True)

    def verify_stream(
        self, queries: Any, bag: Any, *, top: int = 10, resize: Fit | None = None, progress: Progress | None = None
    ) -> list[Verdict]:
        """Verify queries against one bag of any size, which is read in chunks and never held whole.

        Logit, probability and shares are those of ``verify``; see ``docs/large-data.md``.

        Args:
            queries: one or more queries, each a single instance as ``verify`` takes one.
            bag: a ``.npy`` file of features, a mapped array, an iterable of arrays ``(n, C)``, a function that returns
                one, or what ``verify`` takes as a bag.
            top: how many targets with the largest shares to name per query.
            resize: as for ``verify``.
            progress: reports the progress.

        >>> import numpy as np
        >>> verifier = Verifier("cap_dba_l2", channels=2, pooling_options={"heads": 1})
        >>> chunks = ([[0.0, 1.0], [1.0, 0.1]], [[0.5, 0.5]])
        >>> verdicts = verifier.verify_stream([[1.0, 0.0]], (np.array(chunk) for chunk in chunks), top=1)
        >>> verdicts[0].size, verdicts[0].leading[0].index
        (3, 1)
        """
        from miv.verifier.streaming import verify_stream

        return verify_stream(self, queries, bag, top, resize, progress)

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> str | None:
        """Save ``config.json``, ``model.safetensors`` and the files of the backbone to a folder, all or none of them.

        Other files in the folder stay, also a model card (``README.md``).
        """
        from miv.verifier.saving import check_entry, saving_to

        with saving_to(Path(save_directory), self, options) as temporary:
            options = {"config": self.configuration | check_entry(self.unlike), **options}
            result: str | None = super().save_pretrained(temporary, **options)
        return result

    def _save_pretrained(self, save_directory: Path) -> None:
        from miv.verifier.saving import write_files

        write_files(self, save_directory)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *, device: str | torch.device | None = None, **options: Any
    ) -> "Verifier":
        """Load a verifier, ready to use.

        Args:
            pretrained_model_name_or_path: its folder, the folder of a run, a name on the hub, or a verifier included in
                the package: ``miv/digits`` or ``miv/evidence``.
            device: device to load it on, such as ``"cuda"`` or ``"mps"``; the default is the CPU.
            options: options for the hub.
        """
        from miv.verifier.saving import load_verifier

        return load_verifier(cls, str(pretrained_model_name_or_path), device, options)
