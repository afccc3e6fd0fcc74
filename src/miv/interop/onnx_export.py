"""Write a verifier as an ONNX file, but only if ONNX Runtime agrees with PyTorch."""

import copy
import json
import logging
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from miv import __version__
from miv.backbones.descriptors import Features
from miv.bags import Bags
from miv.data.kinds import FLAT, MANY, TINY
from miv.errors import MIVError, needs_extra
from miv.files.atomic import whole_file
from miv.interop.onnx_verifier import FORMAT, FORMAT_VERSION, METADATA_KEY, OnnxVerifier
from miv.verifier.network import Verification, Verifier
from miv.verifier.out_of_distribution import OutOfDistributionLimit

EXPORTED_BACKBONES = ("features", "compact_cnn", "hog_cnn", "hog", "pixels")
TOLERANCE = 1e-4
LARGEST_CHECKED_BAG = 200
_NOISE = 1e-6  # about ten times the rounding of float32
EMPTY = 1e300  # the distance of an instance without content
_OTHER_VERSIONS = "Try other versions of torch, onnxscript or onnxruntime."

# A verifier as a function of one query and one bag.


class VerifierGraph(nn.Module):
    """One query and a bag of ``N`` to ``logit`` ``()``, ``attention`` ``(N,)`` if the pooling has it, and ``distance``.

    The query is ``(C,)`` and the bag ``(N, C)`` float32, or ``(H, W)`` and ``(N, H, W)`` uint8. The squared distances
    ``(1 + N,)`` of query and bag are compared with the out-of-distribution limit; without content they are ``EMPTY``.
    """

    def __init__(self, verifier: Verifier, *, with_backbone: bool) -> None:
        super().__init__()
        self.backbone = verifier.backbone if with_backbone or standardises(verifier) else None
        self.pooling, limit, kind = verifier.pooling, verifier.unlike, verifier.backbone.kind
        self.is_image = self.backbone is not None and kind == "image"
        self.allows_empty = limit is not None and limit.allows_empty
        self.distance = None if limit is None else MahalanobisDistance(limit)
        statistics = None if limit is None or not (self.is_image or kind == "features") else limit.statistics
        self.of_statistics = None if statistics is None else MahalanobisDistance(statistics)

    def forward(self, query: Tensor, bag: Tensor) -> tuple[Tensor, ...]:
        instances = torch.cat([query[None], bag])  # (1 + N, ...)
        shown = instances[:, None].float() / 255 if self.is_image else instances
        features = shown if self.backbone is None else self.backbone(shown)
        rows = instances.float().flatten(1)
        contrast = rows.amax(1) - rows.amin(1)
        empty = contrast <= FLAT if self.is_image else (contrast == 0) & ((rows[:, 0] == 0) | (rows.shape[1] >= MANY))
        if rows.shape[1] < 2:  # as in ``FeaturesKind.is_empty``
            empty = torch.zeros_like(empty)
        if self.is_image or self.backbone is not None:
            features = features * ~empty[:, None]
        normed = self.pooling.norm(features)  # (1 + N, C)
        pooled = self.pooling.forward(normed[:1], OneBag(normed[1:]))
        logit = self.pooling.similarity(pooled.query_vector, pooled.bag_vector)[0]
        outputs = (logit,) if pooled.attention is None else (logit, pooled.attention.mean(dim=1))
        distance = torch.zeros_like(contrast, dtype=torch.float64) if self.distance is None else self.distance(features)
        if self.of_statistics is not None:
            statistics = image_statistics(instances.float()) if self.is_image else vector_statistics(features)
            distance = torch.maximum(distance, self.of_statistics(statistics))
        return *outputs, torch.where(empty, 0.0 if self.allows_empty else EMPTY, distance)

    @property
    def output_names(self) -> list[str]:
        return ["logit", "attention", "distance"] if self.pooling.has_attention else ["logit", "distance"]


def image_statistics(images: Tensor) -> Tensor:
    """``ImageKind.statistics`` of grey images ``(N, H, W)``."""
    flat = images.flatten(1).sort(dim=1).values  # (N, H W)
    last = flat.shape[1] - 1
    levels = []
    for share in (0, 0.05, 0.95, 1):
        below, above = math.floor(share * last), math.ceil(share * last)
        levels.append(flat[:, below] + (flat[:, above] - flat[:, below]) * (share * last - below))
    mean = flat.mean(1)
    steps = [images.diff(dim=axis).abs().flatten(1) if images.shape[axis] > 1 else 0 * flat for axis in (1, 2)]
    border = torch.cat([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], dim=1).mean(1)
    deviation = (flat - mean[:, None]).square().mean(1).sqrt()
    return torch.stack([mean, deviation, *levels, *(step.mean(1) for step in steps), border, 0 * mean], dim=1)


def vector_statistics(vectors: Tensor) -> Tensor:
    """``FeaturesKind.statistics`` of vectors ``(N, C)``."""
    values = vectors.double()
    length, greatest = values.square().sum(1).sqrt(), values.abs().amax(1)
    return torch.stack([(length + TINY).log(), (greatest + TINY).log(), greatest / (length + TINY)], dim=1)


class MahalanobisDistance(nn.Module):
    """The squared distances of ``OutOfDistributionLimit.distance``, in float64 as there."""

    mean: Tensor
    directions: Tensor
    variance: Tensor

    def __init__(self, limit: OutOfDistributionLimit) -> None:
        super().__init__()
        for name in ("mean", "directions", "variance"):
            self.register_buffer(name, torch.from_numpy(getattr(limit, name)).double())
        self.rest, self.is_mean = limit.rest, limit.is_mean

    def forward(self, features: Tensor) -> Tensor:
        channels = self.mean.shape[0]
        vectors = features[:, :channels]  # without the tokens that may follow
        if self.is_mean:
            tokens = features.unflatten(1, (-1, channels))
            vectors = tokens.sum(1) / (tokens != 0).any(2).sum(1).clamp_min(1)[:, None]
        centred = vectors.double() - self.mean  # (1 + N, C)
        along = (centred @ self.directions.T).square()  # (1 + N, K)
        rest = (centred.square().sum(dim=1) - along.sum(dim=1)).clamp_min(0)
        return (along / self.variance).sum(dim=1) + rest / self.rest


def standardises(verifier: Verifier) -> bool:
    """Return whether vectors are standardised first, which is then part of the graph."""
    return isinstance(verifier.backbone, Features) and not verifier.backbone.is_identity


def instance_shape(verifier: Verifier, *, features_only: bool) -> tuple[int, ...]:
    """``(H, W)`` for images, ``(C,)`` for features; an error for what cannot be exported."""
    backbone = str(verifier.configuration["backbone"])
    if backbone == "features" or features_only:
        return (verifier.backbone.channels,)
    if backbone not in EXPORTED_BACKBONES:
        raise MIVError(
            f"The backbone {backbone!r} cannot be exported, because it prepares its instances outside of the graph. "
            f"Use --features-only: the file then takes features. Expected one of {', '.join(EXPORTED_BACKBONES)}."
        )
    if verifier.instances is None:
        raise MIVError("The verifier does not record the size of its images. Use --features-only, or train it first.")
    if verifier.instances.mode != "L":
        raise MIVError(
            "The verifier was trained on colour images; a file takes grey images only. Use --features-only, or train "
            "on a set that was built with --grey."
        )
    return verifier.instances.size


class OneBag(Bags):
    """One bag of ``N`` instances in place of ``Bags``, for export: ``B = 1`` and ``T = N``, which stays dynamic.

    The borders and gradients of ``Bags`` cannot be in a graph; with one bag, every operation is along the first axis.

    >>> bag = OneBag(torch.tensor([[1.0], [3.0]]))
    >>> bag.mean(bag.values)
    tensor([[2.]])
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values  # (N, ...); no borders, hence no check of them

    def with_values(self, values: Tensor) -> "OneBag":
        return OneBag(values)

    def __len__(self) -> int:
        return 1

    @property
    def sizes(self) -> Tensor:
        return torch.ones_like(self.values[:, 0]).sum(0, keepdim=True)  # counted in the graph, not when it is made

    def split(self, rows: Tensor) -> list[Tensor]:
        return [rows]

    def expand(self, rows: Tensor) -> Tensor:
        return rows.expand(self.values.shape[0], *rows.shape[1:])

    def sum(self, rows: Tensor) -> Tensor:
        return rows.sum(0, keepdim=True)

    def mean(self, rows: Tensor) -> Tensor:
        return rows.mean(0, keepdim=True)

    def var(self, rows: Tensor) -> Tensor:
        return (rows - self.mean(rows)).square().mean(0, keepdim=True)

    def max(self, rows: Tensor) -> Tensor:
        return rows.amax(0, keepdim=True)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(0)

    def logsumexp(self, rows: Tensor) -> Tensor:
        return rows.logsumexp(0, keepdim=True)

    def dot(self, rows: Tensor, values: Tensor, heads: int = 1) -> Tensor:
        return (rows * values).unflatten(1, (heads, -1)).sum(-1)  # (N, h)

    def distance(self, rows: Tensor, values: Tensor, weight: Tensor, power: int, heads: int = 1) -> Tensor:
        difference = rows - values  # (N, C)
        distances = weight * (difference.abs() if power == 1 else difference.square())
        return distances.unflatten(1, (heads, -1)).sum(-1)  # (N, h)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        by_head = values.unflatten(1, (weights.shape[1], -1))  # (N, h, D)
        return (weights[..., None] * by_head).sum(0, keepdim=True).flatten(1)  # (1, C)

    def normed_sum(self, weights: Tensor, values: Tensor, gate: Tensor | None, eps: float) -> Tensor:
        gated = values if gate is None else values * gate
        by_head = gated.unflatten(1, (weights.shape[1], -1))  # (N, h, D)
        centred = by_head - by_head.mean(-1, keepdim=True)
        normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        return self.weighted_sum(weights, normed.flatten(1))

    def to_padded(self) -> tuple[Tensor, Tensor]:
        return self.values[None], torch.ones_like(self.values[None, :, 0], dtype=torch.bool)


# The export, and the comparison with PyTorch.


@dataclass(frozen=True)
class ExportCheck:
    """Maximum difference between ONNX Runtime and PyTorch, over random bags of these sizes.

    Args:
        bag_sizes: sizes of the compared bags.
        logit: largest difference of two logits, relative to the logit if that is above 1.
        attention: largest difference of two attentions, ``None`` if the pooling has no attention.
        rounding: change of the PyTorch logit in float64, measured like ``logit``, when the instances change by a
            millionth: the LayerNorm of two nearly equal channels amplifies any difference.
    """

    bag_sizes: list[int]
    logit: float
    attention: float | None
    rounding: float

    @property
    def worst(self) -> float:
        """The larger of the two; NaN if either is NaN."""
        return float(np.max([self.logit, self.attention or 0.0]))  # Python's max() ignores NaN

    @property
    def allowed(self) -> float:
        """The allowed difference: 1e-4, or twice the effect of such a change if that is larger."""
        return max(TOLERANCE, 2 * self.rounding)


def export_onnx(
    verifier: Verifier,
    path: Path | str,
    *,
    features_only: bool = False,
    bags: int = 20,
) -> ExportCheck:
    """Write a verifier as one ONNX file that takes a query and a bag of any size.

    Args:
        verifier: the verifier; its operating point goes into the file's metadata.
        path: output file, written only if it agrees with PyTorch within ``ExportCheck.allowed``.
        features_only: export without the backbone; the file then takes features.
        bags: number of random bags to compare; the first have 1, 2 and 200 instances, the others sizes between.
    """
    if bags < 1:
        raise MIVError(f"bags is {bags}. Expected at least one to compare.")
    with needs_extra("onnx", "Export", "onnx, onnxscript and onnxruntime"):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    shape = instance_shape(verifier, features_only=features_only)
    verifier = copy.deepcopy(verifier).cpu().float().eval()
    random = np.random.default_rng(0)
    graph = VerifierGraph(verifier, with_backbone=len(shape) == 2).eval()
    program = _traced(graph, *_instances(random, shape, 7))
    program.model.metadata_props[METADATA_KEY] = json.dumps(_metadata(verifier, shape), ensure_ascii=False)
    with whole_file(Path(path)) as temporary:
        program.save(temporary, external_data=False)
        check = _compare(verifier, OnnxVerifier(temporary), random, bags)
        if not check.worst <= check.allowed:
            difference = f"{check.worst:.3g}, which is above {check.allowed:.3g}"
            raise MIVError(f"ONNX Runtime differs from PyTorch by {difference}; nothing was written. {_OTHER_VERSIONS}")
    return check


def _metadata(verifier: Verifier, shape: tuple[int, ...]) -> dict[str, Any]:
    configuration, point, unlike = verifier.configuration, verifier.operating_point, verifier.unlike
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "miv": __version__,
        "pooling": configuration["pooling"],
        "backbone": configuration["backbone"],
        "instances": "image" if len(shape) == 2 else "features",
        "shape": list(shape),
        "operating_point": {
            "goal": point.goal,
            "threshold": point.threshold,
            "scaling": point.scaling.document(),
            "witness_rule": point.witness_rule.document(),
            **({} if point.lower_threshold is None else {"lower_threshold": point.lower_threshold}),
        },
        "unlike": {"limit": 1.0, "rate": 0.0} if unlike is None else {"limit": unlike.limit, "rate": unlike.rate},
    }


def _instances(random: np.random.Generator, shape: tuple[int, ...], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    instances: NDArray[Any] = random.normal(size=(1 + size, *shape)).astype(np.float32)
    if len(shape) == 2:
        instances = random.integers(0, 256, (1 + size, *shape), dtype=np.uint8)
    return instances[0], instances[1:]


def _traced(graph: VerifierGraph, query: NDArray[Any], bag: NDArray[Any]) -> Any:
    # Torch caches the LSTM kernel of the last export, so that the second file would take bags of one size only.
    torch.ops.aten.lstm.input._dispatch_cache.clear()
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # messages about unrelated libraries, such as torchvision
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.onnx.export(
                graph,
                (torch.from_numpy(query), torch.from_numpy(bag)),
                input_names=["query", "bag"],
                output_names=graph.output_names,
                dynamic_shapes={"query": None, "bag": {0: torch.export.Dim("N", min=1)}},
                dynamo=True,
                optimize=False,  # it replaces x + 1e-12 with x, so the LayerNorm of a one-channel head becomes 0 / 0
                verbose=False,
            )
    finally:
        logger.setLevel(level)


def _compare(verifier: Verifier, exported: OnnxVerifier, random: np.random.Generator, bags: int) -> ExportCheck:
    """Compare random bags; the rounding is that of PyTorch in float64 when the instances change by a millionth."""
    shape, with_backbone = exported.shape, len(exported.shape) == 2
    sizes = [1, 2, LARGEST_CHECKED_BAG, *random.integers(3, LARGEST_CHECKED_BAG, max(0, bags - 3)).tolist()][:bags]
    exact, noise = copy.deepcopy(verifier).double(), torch.Generator().manual_seed(0)
    prepare = verifier.backbone.prepare if with_backbone else torch.from_numpy
    logits, attentions, rounding = [], [], 0.0
    for size in sizes:
        query, bag = _instances(random, shape, size)
        inputs = [prepare(query[None]), prepare(bag)]
        expected = _verify(verifier, *inputs, with_backbone=with_backbone)
        logit = float(expected.logit[0])
        if not np.isfinite(logit):
            raise MIVError(f"The verifier itself returns a logit of {logit} for a random bag; nothing was written.")
        shaken = [x.double() * (1 + _NOISE * torch.randn(x.shape, generator=noise)) for x in inputs]
        moved = float(_verify(exact, *shaken, with_backbone=with_backbone).logit[0])
        try:
            answer = exported.verify(query, bag)
        except ValueError as error:
            raise MIVError(f"ONNX Runtime fails on a random bag of {size}: {error}") from error
        logits.append(abs(answer.logit - logit) / max(1.0, abs(logit)))
        rounding = max(rounding, abs(moved - logit) / max(1.0, abs(logit)))
        pair = (answer.attention, None if expected.attention is None else expected.attention.numpy())
        shapes = [None if values is None else values.shape for values in pair]
        if shapes[0] != shapes[1]:
            difference = f"attention of shape {shapes[0]}, PyTorch of {shapes[1]}"
            raise MIVError(f"ONNX Runtime returns {difference}; nothing was written. {_OTHER_VERSIONS}")
        if pair[0] is not None and pair[1] is not None:
            attentions.append(float(np.abs(pair[0] - pair[1]).max()))
    return ExportCheck(sizes, float(np.max(logits)), float(np.max(attentions)) if attentions else None, rounding)


def _verify(verifier: Verifier, query: torch.Tensor, bag: torch.Tensor, *, with_backbone: bool) -> Verification:
    verify = verifier if with_backbone or standardises(verifier) else verifier.verify_features
    with torch.inference_mode():
        return verify(query, Bags.from_list([bag]))
