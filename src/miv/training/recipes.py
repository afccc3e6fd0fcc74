"""Recipes: complete ways from frozen features to verdicts, from plain to rich. Adding one touches this file alone.

Each fits forms, which say how a verifier compares a query with its bag, on plain arrays; a form is set in a pooling.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch

from miv.bags import Bags
from miv.data import csr
from miv.files.arrays import Floats, Vectors
from miv.poolings import POOLINGS, Pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_tokens import CapTokensPooling, MatchedProduct
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.registry import Registry
from miv.runtime import evaluating
from miv.training.config import TrainingConfig
from miv.training.fits import BagData, contrast_maps, label_maps, logistic, solve

_NUMBERS = 1 << 22  # compared together: 16 MB of float32
_NEAREST = 1024.0  # sharpness that leaves hardly more than the nearest target, where only attention can express it


@dataclass(frozen=True, eq=False)
class Form:
    r"""How a verifier compares a query with its bag: what recipes fit.

    .. math:: c_n = \cos(M (q - c), M (t_n - c)) + r \, m_n, \qquad a_n \propto \exp\{k \, c_n\}, \qquad
        \ell = s \sum_n a_n (c_n - r \, m_n) + s \, r \max_n m_n + w^\top M (q - c) + b
    """

    centre: Vectors | None = None  # (C,) c
    map: Vectors | None = None  # (C, C) M
    share: float = 0.0  # r, of the tokens of texts
    sharpness: float | None = None  # k; None: the nearest target alone
    scale: float = 1.0  # s
    intercept: float = 0.0  # b
    query: Floats | None = None  # (C,) w, of the query alone, which has length 1 there

    def units(self, data: BagData) -> Vectors:
        """``(U, C)`` the instances as they are compared, of length 1."""
        if self.centre is None and self.map is None:
            return data.units
        moved = data.units if self.centre is None else data.units - self.centre
        moved = moved if self.map is None else moved @ self.map.T
        return np.asarray(moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6), np.float32)

    def similarities(self, data: BagData, units: Vectors) -> Floats:
        """``(T,)`` of each target with its query."""
        products = np.zeros(len(data.target))
        together = max(1, _NUMBERS // units.shape[1])
        for first in range(0, len(products), together):
            part = slice(first, first + together)
            products[part] = np.einsum("tc,tc->t", units[data.query[data.owner[part]]], units[data.target[part]])
        return products + self.share * data.match

    def attention(self, data: BagData, similarity: Floats) -> Floats:
        """``(T,)`` shares that sum to 1 in each bag."""
        best = csr.to_rows(csr.bag_maxima(similarity, data.ptr), data.ptr)
        shares = similarity == best if self.sharpness is None else np.exp(self.sharpness * (similarity - best))
        return np.asarray(shares / csr.to_rows(csr.bag_sums(shares.astype(np.float64), data.ptr), data.ptr))

    def pooled(self, data: BagData, similarity: Floats) -> Floats:
        """``(R,)`` the similarity of each bag."""
        tokens = self.share * data.match  # of which the best counts, whatever the attention
        cosine = csr.bag_sums(self.attention(data, similarity) * (similarity - tokens), data.ptr)
        return np.asarray(cosine + csr.bag_maxima(tokens, data.ptr))

    def logits(self, data: BagData) -> tuple[Floats, Floats]:
        """Logits ``(R,)`` of the bags, and similarities ``(T,)`` of their targets."""
        units = self.units(data)
        similarity = self.similarities(data, units)
        logit = self.scale * self.pooled(data, similarity) + self.intercept
        if self.query is not None:
            logit += units[data.query] @ self.query
        return logit, similarity

    def scaled(self, data: BagData) -> "Form":
        """The form with the scale and intercept that suit the bags."""
        score = self.pooled(data, self.similarities(data, self.units(data)))
        scale, intercept = logistic(score, data.label, data.weight)
        return replace(self, scale=scale, intercept=intercept)


def is_expressible(config: TrainingConfig) -> bool:
    """Whether a form can stand for a verifier with these settings: one head that compares cosines."""
    make, options = POOLINGS[config.pooling].make, config.pooling_options
    if config.start == "paper" or not make.starts_as_nearest:
        return False
    has_one_head = bool(options.get("heads", config.heads) == 1)
    if not issubclass(make, CrossAttentionPooling):
        return has_one_head or not issubclass(make, CapTokensPooling)
    is_plain = options.get("norm", "pre") == "none"
    return is_plain and has_one_head and config.pooling != "cap_dba_l1"


def set_form(pooling: Pooling, form: Form) -> None:
    """Give a pooling with the start "similar" the weights that a form stands for.

    A probe of two targets, the query itself and its opposite, measures how this pooling scales vectors and scores.
    """
    norm, similarity = cast(AlignedNorm, pooling.norm), cast(ScaledProduct, pooling.similarity)
    channels = similarity.channels
    with evaluating(pooling), torch.no_grad():
        if form.centre is not None:
            norm.centre.copy_(torch.from_numpy(form.centre))
        if form.map is not None:
            norm.map.copy_(torch.from_numpy(form.map))
        if isinstance(pooling, CapTokensPooling):
            pooling.share.fill_(form.share)
            cast(MatchedProduct, similarity).share.fill_(form.share)
        attending = pooling.cap if isinstance(pooling, CapTokensPooling) else pooling
        probe = (1.0 - 2.0 * (torch.arange(attending.channels) % 2))[None].to(norm.map)  # mean 0: a LayerNorm keeps it
        if not isinstance(pooling, CapTokensPooling):
            probe = probe * norm.weight
        bag = Bags(torch.cat([probe, -probe]), torch.tensor([0, 2]).to(probe.device))
        if isinstance(attending, CrossAttentionPooling) and attending.sharpness is not None:
            attending.sharpness.fill_(1.0)
            scores = attending.attend(probe, bag)[1]
            slope = (scores[0] - scores[1]) / 2  # (h,) of the scores, per unit of the cosine
            attending.sharpness.copy_((form.sharpness or _NEAREST) / slope.clamp(min=1e-6))
        gate = float(attending.forward(probe, bag).query_vector[:, :channels].norm()) / math.sqrt(channels)
        scale = form.scale / gate**2
        similarity.scale.fill_(scale)
        similarity.intercept.fill_(form.intercept)
        if form.query is not None:
            similarity.prior.copy_(torch.from_numpy(form.query * math.sqrt(channels) / (gate * scale)))


RECIPES: Registry["Recipe"] = Registry("recipe")
PLAIN = ("nearest", "centred", "whitened", "tokens")
MAPS = ("contrast_map", "label_map")


class Recipe(ABC):
    """Fits forms to train bags. The first line of a subclass describes it in the table of ``miv train``."""

    builds_on: ClassVar[tuple[str, ...]] = ()  # it starts from the best of these recipes

    @abstractmethod
    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        """Forms by variant, from the most restrained to the freest; none if the recipe does not suit the data."""


@RECIPES.register("nearest")
class Nearest(Recipe):
    """Cosine of the query and its nearest target."""

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {"": Form().scaled(data)}


@RECIPES.register("centred")
class Centred(Recipe):
    """The same after subtracting the mean feature of train."""

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {"": Form(centre=data.moments.mean).scaled(data)}


@RECIPES.register("whitened")
class Whitened(Recipe):
    """The same after partly whitening the features."""

    power = 0.25

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        moments = data.moments
        if len(moments.variance) < len(moments.mean):  # with so many channels only the strongest directions are known
            return {}
        return {"": Form(centre=moments.mean, map=moments.whitening(self.power)).scaled(data)}


@RECIPES.register("tokens")
class Tokens(Recipe):
    """Adds the best match of each token of the query to the cosine (texts)."""

    builds_on = ("nearest", "centred", "whitened")
    shares = (0.04, 0.16)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        shares = self.shares if data.match.any() else ()
        return {f"share {share:g}": replace(base, share=share).scaled(data) for share in shares}


@RECIPES.register("contrast_map")
class ContrastMap(Recipe):
    """A linear map with which queries find their own bags among all."""

    builds_on = PLAIN
    pulls = (100.0, 30.0, 10.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        some = data.subset(data.label == 1)
        some = some.sample(2_000, len(some.target), np.random.default_rng([seed, 31])) if len(some) else some
        some = _nearest(some, base, 20_000)
        maps = contrast_maps(some, base.units(some), self.pulls) if len(some) else []
        return _with_maps(data, base, self.pulls, maps)


@RECIPES.register("label_map")
class LabelMap(Recipe):
    """A linear map fitted to the labels of the bags."""

    builds_on = PLAIN
    pulls = (300.0, 100.0, 30.0, 10.0, 3.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        some = _nearest(data.sample(4_000, len(data.target), np.random.default_rng([seed, 29])), base, 40_000)
        match = base.share * some.match
        maps = label_maps(some, base.units(some), match, self.pulls) if some.can_learn else []
        return _with_maps(data, base, self.pulls, maps)


@RECIPES.register("query")
class Query(Recipe):
    """Adds a linear term of the query alone: some queries are matched more often than others."""

    builds_on = (*PLAIN, "contrast_map")  # labels that a map has explained would leave nothing to learn
    pulls = (4.0, 1.3, 0.4)  # per channel

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        data = data.sample(20_000, len(data.target), np.random.default_rng([seed, 17]))
        query = base.units(data)[data.query]
        mean, spread = query.mean(axis=0), query.std(axis=0)
        varying = spread[spread > 0]
        # A channel that hardly varies in train would get an enormous weight.
        spread = np.maximum(spread, 0.1 * np.median(varying) if len(varying) else 1.0)
        offset, forms = base.logits(data)[0], {}
        for pull in self.pulls:
            solution = solve((query - mean) / spread, offset, data.label, data.weight, pull * query.shape[1])
            weights = solution[:-1] / spread
            intercept = base.intercept + float(solution[-1] - weights @ mean)
            forms[f"pull {pull:g}"] = replace(base, query=weights, intercept=intercept)
        return forms


@RECIPES.register("cap")
class Cap(Recipe):
    """Cross-attention pooling: all targets count, near ones more."""

    builds_on = (*PLAIN, *MAPS)
    sharpness = (64.0, 16.0, 4.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {f"sharpness {k:g}": replace(base, sharpness=k).scaled(data) for k in self.sharpness}


def _nearest(data: BagData, base: Form, most: int) -> BagData:
    """Without the targets of large bags that are far from the query, so that there are about so many in all."""
    if len(data.target) <= most:
        return data
    return data.nearest(base.logits(data)[1], max(16, most // len(data)))


def _with_maps(data: BagData, base: Form, pulls: tuple[float, ...], maps: list[Vectors]) -> dict[str, Form]:
    """The base with each of the maps after its own."""
    forms = {}
    for pull, matrix in zip(pulls, maps, strict=False):
        combined = matrix if base.map is None else matrix @ base.map
        forms[f"pull {pull:g}"] = replace(base, map=combined).scaled(data)
    return forms
