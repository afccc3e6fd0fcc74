"""From exemplars and frozen features to a fitted verifier: recipes are selected, and the chosen one is set in it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from miv.bags import Bags
from miv.data import ExemplarSet
from miv.data.batches import embedded, make_batch, rows_together
from miv.errors import MIVError, unknown_name
from miv.files.arrays import Floats, Labels, Vectors
from miv.poolings import POOLINGS, Pooling
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.nearest import NearestPooling
from miv.poolings.similar import ScaledProduct
from miv.runtime import evaluating
from miv.training.config import TrainingConfig
from miv.training.fits import BagData, logistic
from miv.training.forms import Form, set_form
from miv.training.new_verifier import create_verifier
from miv.training.recipes import RECIPES
from miv.training.selection import Selection, select
from miv.training.stage_module import Sets, SplitFeatures
from miv.verifier.network import Verifier

MODES = ("select", "epochs", "paper")  # of the setting `recipe`, besides names
PLAIN = ("nearest", "centred", "whitened")
_MOST_NUMBERS = 1 << 27  # of features in memory: 512 MB
_MOST_EXEMPLARS = 20_000
_PAIRS_TOGETHER = 4_096


def recipes_for(config: TrainingConfig) -> list[str]:
    """The recipes to choose among, from plain to rich: those that the pooling can express, and the settings allow."""
    make, names = POOLINGS[config.pooling].make, RECIPES.names()
    if issubclass(make, NearestPooling):
        possible = ["centred" if config.pooling_options.get("centred") else "nearest"]
    elif issubclass(make, CapTokensPooling):
        possible = names
    else:
        # Without cross-attention it attends by its similarity, or not at all.
        attends = issubclass(make, CrossAttentionPooling)
        left_out = ("tokens",) if attends else ("tokens", "cap", "weighted", "cap_head")
        possible = [name for name in names if name not in left_out] if make.starts_as_nearest else []
    for name in (config.recipe, *config.recipes, *config.without):
        if name not in (*names, *(MODES if name == config.recipe else ())):
            raise unknown_name("recipe", name, (*names, *MODES))
    wanted = [name for name in possible if name not in config.without]
    if config.recipe in names:
        wanted = [name for name in wanted if name in PLAIN or name == config.recipe]
        wanted = [config.recipe] if config.recipe in PLAIN and config.recipe in wanted else wanted
    elif config.recipes:
        wanted = [name for name in wanted if name in config.recipes]
    if (possible and not wanted) or (config.recipe in names and config.recipe not in wanted):
        known = ", ".join(possible) or "none, as it trains by epochs"
        raise MIVError(f"No recipe is left for the pooling {config.pooling} and these settings. Possible: {known}.")
    return wanted


def choose_form(verifier: Verifier, sets: Sets, features: SplitFeatures, config: TrainingConfig) -> Selection:
    """Select a recipe for the features of a verifier, and fit it to train."""
    random = np.random.default_rng([config.seed, 11])
    train = bag_data(verifier, sets["train"], features["train"], random)
    held_out = None
    if sets["validation"] is not sets["train"]:
        held_out = bag_data(verifier, sets["validation"], features["validation"], random)
    forced = config.recipe if config.recipe in RECIPES.names() else None
    with threadpool_limits(1, user_api="blas"):  # threads of SciPy's small steps wait for those of torch: 5 x slower
        return select(train, held_out, recipes_for(config), config.seed, forced)


def bag_data(verifier: Verifier, exemplars: ExemplarSet, features: Vectors, random: np.random.Generator) -> BagData:
    """The exemplars as recipes take them, or a sample that fits in memory."""
    channels = verifier.backbone.vector_channels
    order = random.permutation(len(exemplars))[:_MOST_EXEMPLARS]
    order = order[: max(2, int(np.searchsorted(np.cumsum(exemplars.bag_sizes[order]), _MOST_NUMBERS // channels)))]
    if len(order) < len(exemplars):
        exemplars = exemplars.subset(np.sort(order))
    data = BagData.of(exemplars, features, channels)
    if not isinstance(verifier.pooling, CapTokensPooling):
        return data
    return replace(data, match=token_matches(verifier.pooling, exemplars.by_reference(), features))


def token_matches(pooling: CapTokensPooling, exemplars: ExemplarSet, features: Vectors) -> Floats:
    """``(T,)`` the similarity of the tokens of each target to those of its query."""
    parts = []
    with torch.no_grad():
        for query, bags in _batches(pooling, exemplars, features, 128):
            tokens = (one[:, pooling.vector :] for one in (query, bags.values))
            parts.append(pooling.match(next(tokens), bags.with_values(next(tokens)))[:, 0].double().cpu().numpy())
    return np.concatenate(parts)


def _batches(
    pooling: Pooling, exemplars: ExemplarSet, features: Vectors, together: int
) -> Iterator[tuple[torch.Tensor, Bags]]:
    weight = next(pooling.parameters())
    lookup = embedded(features, weight.dtype)
    for first in range(0, len(exemplars), together):
        rows = np.arange(first, min(first + together, len(exemplars)))
        yield make_batch(exemplars, rows, lookup).to(weight.device).single_queries_and_bags()


def verifier_of(form: Form, verifier: Verifier, config: TrainingConfig, sets: Sets) -> Verifier:
    """The verifier with the weights of a form; if only the nearest target counts, with the pooling ``nearest``."""
    attends = isinstance(verifier.pooling, CrossAttentionPooling)
    if form.sharpness is None and form.head is None and attends:
        plain = config.changed({"pooling": "nearest", "pooling_options": {}})
        nearest = create_verifier(plain, sets["train"].pool).to(verifier.device)
        nearest.backbone.load_state_dict(verifier.backbone.state_dict())
        verifier = nearest
    set_form(verifier.pooling, form)
    return verifier


def fit_scale(verifier: Verifier, exemplars: ExemplarSet, features: Vectors, seed: int) -> None:
    """Fit scale and intercept of a pooling that no form describes, as trained by epochs from the start "similar"."""
    similarity, pooling = verifier.pooling.similarity, verifier.pooling
    if not isinstance(similarity, ScaledProduct):
        return
    references = exemplars.by_reference()
    chosen = np.random.default_rng([seed, 11]).permutation(len(references))[:1_500]
    some, logits = references.subset(np.sort(chosen)), []
    if some.label.min() == some.label.max():
        return
    with evaluating(verifier), torch.no_grad():
        for query, bags in _batches(pooling, some, features, rows_together(pooling.channels)):
            output = pooling(query, bags)
            logits.append(similarity(output.query_vector, output.bag_vector).double().cpu().numpy())
        weight = np.ones(len(some)) if some.weight is None else some.weight / some.weight.mean()
        slope, intercept = logistic(np.concatenate(logits), some.label, weight)
        similarity.scale.mul_(slope)
        similarity.intercept.mul_(slope).add_(intercept)


_HIGHEST, _SPREAD, _FEWEST = 5.0, 0.5, 30  # temperature; prior deviation of its logarithm; exemplars


def fit_temperature(logit: Floats, label: Labels, weight: Floats) -> float | None:
    r"""The temperature for held-out logits ``(E,)``; ``None`` if they are few or not overconfident.

    .. math:: \min_{T \ge 1} \sum_e w_e L(y_e, \ell_e / T) + \frac{(\log T)^2}{2 \cdot 0.5^2}
    """
    if len(label) < _FEWEST or label.min() == label.max():
        return None
    sign = 1 - 2 * label.astype(np.float64)

    def objective(logarithm: float) -> float:
        loss = (np.logaddexp(0, sign * logit / np.exp(logarithm)) * weight).sum()
        return float(loss + (logarithm / _SPREAD) ** 2 / 2)

    solution = minimize_scalar(objective, bounds=(0.0, np.log(_HIGHEST)), method="bounded")
    temperature = float(np.exp(solution.x))
    return temperature if temperature > 1.01 else None
