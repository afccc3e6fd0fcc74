"""Recipes: complete ways from frozen features to verdicts, from plain to rich. Adding one touches this file alone."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from miv.files.arrays import Floats, Vectors
from miv.registry import Registry
from miv.training.bag_data import BagData
from miv.training.fits import contrast_maps, label_maps, solve, whitening
from miv.training.forms import Form, Head, bag_vectors

RECIPES: Registry["Recipe"] = Registry("recipe")


class Recipe(ABC):
    """Fits forms to train bags. The first line of a subclass describes it in the table of ``miv train``."""

    extends: ClassVar[bool] = True  # whether it builds on the best recipe before it

    @abstractmethod
    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        """Forms by variant, from the most restrained to the freest; none if the recipe does not suit the data."""


@RECIPES.register("nearest")
class Nearest(Recipe):
    """Cosine of the query and its nearest target."""

    extends = False

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {"": Form().scaled(data)}


@RECIPES.register("centred")
class Centred(Recipe):
    """The same after subtracting the mean feature of train."""

    extends = False

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {"": Form(centre=data.units.mean(axis=0)).scaled(data)}


@RECIPES.register("whitened")
class Whitened(Recipe):
    """The same after partly whitening the features."""

    extends = False
    powers = (0.25,)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        if data.units.shape[1] > 2_048:  # a larger covariance takes minutes and says little
            return {}
        maps = {f"power {power:g}": whitening(data.units, power) for power in self.powers}
        return {name: Form(centre=mean, map=matrix).scaled(data) for name, (mean, matrix) in maps.items()}


@RECIPES.register("tokens")
class Tokens(Recipe):
    """Adds the best match of each token of the query to the cosine (texts)."""

    shares = (0.04, 0.16)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        if not data.match.any():
            return {}
        return {f"share {share:g}": replace(base, share=share).scaled(data) for share in self.shares}


@RECIPES.register("contrast_map")
class ContrastMap(Recipe):
    """A linear map with which queries find their own bags among all."""

    pulls = (300.0, 100.0, 30.0, 10.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return _with_maps(
            data, base, self.pulls, contrast_maps(data, base.units(data), self.pulls, np.random.default_rng([seed, 31]))
        )


@RECIPES.register("label_map")
class LabelMap(Recipe):
    """A linear map fitted to the labels of the bags."""

    pulls = (300.0, 100.0, 30.0, 10.0, 3.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        some = data.sample(6_000, 60_000, np.random.default_rng([seed, 29]))
        return _with_maps(
            data, base, self.pulls, label_maps(some, base.units(some), base.share * some.match, self.pulls)
        )


@RECIPES.register("cap")
class Cap(Recipe):
    """Cross-attention pooling: all targets count, near ones more."""

    sharpness = (64.0, 16.0, 4.0)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {f"sharpness {k:g}": replace(base, sharpness=k).scaled(data) for k in self.sharpness}


@RECIPES.register("cap_head")
class CapHead(Recipe):
    """Channels of their own weight, by logistic regression on query and bag vector."""

    pulls = (2.0, 0.5)  # per input

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        data = data.sample(20_000, len(data.target), np.random.default_rng([seed, 17]))
        units = base.units(data)
        similarity = base.similarities(data, units)
        query, bag = units[data.query], bag_vectors(data, units, base.attention(data, similarity))
        pair = np.concatenate([query * bag, -np.abs(query - bag)], axis=1)
        offset = base.scale * base.pooled(data, similarity) + base.intercept
        kinds = {"pairs": pair, "query": query, "both": np.concatenate([pair, query], axis=1)}
        forms = {}
        for kind, inputs in kinds.items():
            mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
            varying = spread[spread > 0]
            # A channel that hardly varies in train would get an enormous weight.
            spread = np.maximum(spread, 0.1 * np.median(varying) if len(varying) else 1.0)
            for pull in self.pulls:
                solution = solve((inputs - mean) / spread, offset, data.label, data.weight, pull * inputs.shape[1])
                weights = solution[:-1] / spread
                forms[f"{kind}, pull {pull:g}"] = replace(
                    base, head=_head(kind, weights, solution[-1] - weights @ mean)
                )
        return forms


def _head(kind: str, weights: Floats, intercept: float) -> Head:
    channels = len(weights) // {"pairs": 2, "query": 1, "both": 3}[kind]
    nothing = np.zeros(channels)
    parts = np.split(weights, len(weights) // channels)
    product, distance = (nothing, nothing) if kind == "query" else parts[:2]
    return Head(product, distance, nothing if kind == "pairs" else parts[-1], float(intercept))


def _with_maps(data: BagData, base: Form, pulls: tuple[float, ...], maps: list[Vectors]) -> dict[str, Form]:
    """The base with each of the maps after its own."""
    forms = {}
    for pull, matrix in zip(pulls, maps, strict=False):
        combined = matrix if base.map is None else matrix @ base.map
        forms[f"pull {pull:g}"] = replace(base, map=combined, head=None).scaled(data)
    return forms
