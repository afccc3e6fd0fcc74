"""Recipes: complete ways from frozen features to verdicts, from plain to rich. Adding one touches this file alone."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from miv.files.arrays import Vectors
from miv.registry import Registry
from miv.training.fits import BagData, contrast_maps, label_maps, solve
from miv.training.forms import Form

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
