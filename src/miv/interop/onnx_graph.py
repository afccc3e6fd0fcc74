"""A verifier as a function of one query and one bag, for export."""

import torch
from torch import Tensor, nn

from miv.backbones.descriptors import Features
from miv.bags import Bags
from miv.errors import MIVError
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import OutOfDistributionLimit

EXPORTED_BACKBONES = ("features", "compact_cnn", "hog_cnn", "hog", "pixels")


class VerifierGraph(nn.Module):
    """One query and a bag of ``N`` to ``logit`` ``()`` and, if the pooling has it, ``attention`` ``(N,)``.

    The query is ``(C,)`` and the bag ``(N, C)`` float32, or ``(H, W)`` and ``(N, H, W)`` uint8. With an
    out-of-distribution limit, ``distance`` ``(1 + N,)`` are the squared distances of query and bag.
    """

    def __init__(self, verifier: Verifier, *, with_backbone: bool) -> None:
        super().__init__()
        self.backbone = verifier.backbone if with_backbone or standardises(verifier) else None
        self.pooling = verifier.pooling
        self.distance = None if verifier.unlike is None else MahalanobisDistance(verifier.unlike)

    def forward(self, query: Tensor, bag: Tensor) -> tuple[Tensor, ...]:
        instances = torch.cat([query[None], bag])  # (1 + N, ...)
        if self.backbone is not None and self.backbone.kind == "image":
            instances = instances[:, None].float() / 255
        features = instances if self.backbone is None else self.backbone(instances)
        normed = self.pooling.norm(features)  # (1 + N, C)
        pooled = self.pooling.forward(normed[:1], OneBag(normed[1:]))
        logit = self.pooling.similarity(pooled.query_vector, pooled.bag_vector)[0]
        outputs = (logit,) if pooled.attention is None else (logit, pooled.attention.mean(dim=1))
        return outputs if self.distance is None else (*outputs, self.distance(features))

    @property
    def output_names(self) -> list[str]:
        names = ["logit", "attention"] if self.pooling.has_attention else ["logit"]
        return names if self.distance is None else [*names, "distance"]


class MahalanobisDistance(nn.Module):
    """The squared distances of ``OutOfDistributionLimit.distance``, in float64 as there."""

    mean: Tensor
    directions: Tensor
    variance: Tensor

    def __init__(self, limit: OutOfDistributionLimit) -> None:
        super().__init__()
        for name in ("mean", "directions", "variance"):
            self.register_buffer(name, torch.from_numpy(getattr(limit, name)).double())
        self.rest = limit.rest

    def forward(self, features: Tensor) -> Tensor:
        vectors = features[:, : self.mean.shape[0]]  # without the tokens that may follow
        centred = vectors.double() - self.mean  # (1 + N, C)
        along = (centred @ self.directions.T).square()  # (1 + N, K)
        rest = (centred.square().sum(dim=1) - along.sum(dim=1)).clamp_min(0)
        return (along / self.variance).sum(dim=1) + rest / self.rest


def standardises(verifier: Verifier) -> bool:
    """Return whether vectors are standardised first, which is then part of the graph."""
    return isinstance(verifier.backbone, Features) and not verifier.backbone.is_identity


def instance_shape(verifier: Verifier, image_size: tuple[int, int] | None, *, features_only: bool) -> tuple[int, ...]:
    """``(H, W)`` for images, ``(C,)`` for features; an error for what cannot be exported."""
    backbone = str(verifier.configuration["backbone"])
    if backbone == "features" or features_only:
        if image_size is not None:
            raise MIVError("Got an image size, but the file takes features. Omit --image-size.")
        return (verifier.backbone.channels,)
    if backbone not in EXPORTED_BACKBONES:
        raise MIVError(
            f"The backbone {backbone!r} cannot be exported, because it prepares its instances outside of the graph. "
            f"Use --features-only: the file then takes features. Expected one of {', '.join(EXPORTED_BACKBONES)}."
        )
    if verifier.instances is None:
        if image_size is None:
            raise MIVError("The image size is missing. Pass height x width: --image-size 28x28.")
        return image_size
    if verifier.instances.mode != "L":
        raise MIVError("The verifier was trained on colour images; a file takes grey images only. Use --features-only.")
    size = verifier.instances.size
    if image_size not in (None, size):
        raise MIVError(f"image_size is {image_size}, but the verifier was trained on {size}. Omit it.")
    return size


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

    def places(self) -> tuple[Tensor, Tensor]:
        number = torch.ones_like(self.values[:, 0], dtype=torch.int64).cumsum(0)  # 1 … N
        return number - 1, number.amax(0, keepdim=True) - number

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
