"""From frozen features to a fitted verifier: a recipe is selected and set in it, or stages train it by epochs."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet
from miv.data.batches import embedded, make_batch
from miv.errors import MIVError, unknown_name
from miv.evaluation.predicting import predict
from miv.evaluation.runs import RunFolder, recipe_rows
from miv.files.arrays import Floats, Labels, Vectors
from miv.poolings import POOLINGS
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.nearest import NearestPooling
from miv.poolings.similar import ScaledProduct
from miv.runtime import Progress, aligned_table, evaluating
from miv.training.checkpoint import LAST, StageState
from miv.training.config import TrainingConfig
from miv.training.fits import BagData, logistic
from miv.training.new_verifier import create_verifier
from miv.training.recipes import RECIPES, is_expressible, set_form
from miv.training.selection import Selection, select
from miv.training.stages import CONTRAST, FROZEN, Machine, Sets, SplitFeatures, Stage, run_stage
from miv.verifier.network import Verifier

MODES = ("select", "epochs", "paper")  # of the setting `recipe`, besides names
_MOST_NUMBERS = 1 << 28  # of the features of targets; more take minutes
_MOST_EXEMPLARS = 20_000


def recipes_for(config: TrainingConfig) -> list[str]:
    """The recipes to choose among, from plain to rich: those that the pooling can express, and the settings allow."""
    make, names = POOLINGS[config.pooling].make, RECIPES.names()
    if config.recipe not in ("epochs", "paper") and not is_expressible(config) and config.recipe in (*names, *MODES):
        raise MIVError(
            f"recipe is {config.recipe!r}, and no recipe expresses {config.pooling} with start={config.start!r}, heads="
            f"{config.heads} and the options {config.pooling_options}. Expected recipe='epochs', or start='similar', "
            "one head and norm='none'."
        )
    if issubclass(make, NearestPooling):
        possible = ["centred" if config.pooling_options.get("centred") else "nearest"]
    elif issubclass(make, CapTokensPooling):
        possible = names
    else:
        # Without cross-attention it attends by its similarity, or not at all.
        attends = issubclass(make, CrossAttentionPooling)
        left_out = ("tokens",) if attends else ("tokens", "cap")
        possible = [name for name in names if name not in left_out] if make.starts_as_nearest else []
    for name in (config.recipe, *config.recipes, *config.without):
        if name not in (*names, *(MODES if name == config.recipe else ())):
            raise unknown_name("recipe", name, (*names, *MODES))
    wanted = [name for name in possible if name not in config.without]
    if config.recipe in names and config.recipes:
        raise MIVError(
            f"recipe is {config.recipe!r}, and recipes are {', '.join(config.recipes)}. Expected one of both settings: "
            "recipe takes this one whatever the figures, recipes selects from several."
        )
    if config.recipe in names and config.recipe in config.without:
        raise MIVError(f"recipe is {config.recipe!r}, and without names it too. Remove one of both settings.")
    if config.recipe in names:
        below = _builds_on(config.recipe)
        wanted = [name for name in wanted if name in below or name == config.recipe]
    elif config.recipes:
        wanted = [name for name in wanted if name in config.recipes]
    if (possible and not wanted) or (config.recipe in names and config.recipe not in wanted):
        known = ", ".join(possible) or "none, as it trains by epochs"
        raise MIVError(f"No recipe is left for the pooling {config.pooling} and these settings. Possible: {known}.")
    return wanted


def _builds_on(name: str) -> set[str]:
    """All recipes that a recipe may start from, and those that these start from."""
    direct = RECIPES[name].make.builds_on
    return {*direct, *(other for one in direct if one in RECIPES.names() for other in _builds_on(one))}


def choose_form(
    verifier: Verifier, sets: Sets, features: SplitFeatures, config: TrainingConfig, progress: Progress
) -> Selection:
    """Select a recipe for the features of a verifier, and fit it to train."""
    random = np.random.default_rng([config.seed, 11])
    train = bag_data(verifier, sets["train"], features["train"], random)
    held_out = None
    if sets["validation"] is not sets["train"]:
        held_out = bag_data(verifier, sets["validation"], features["validation"], random)
    forced = config.recipe if config.recipe in RECIPES.names() else None
    step = progress.step("Comparing recipes on held-out bags")
    with (
        step,
        threadpool_limits(1, user_api="blas"),
    ):  # threads of SciPy's small steps wait for those of torch: 5 x slower
        return select(train, held_out, recipes_for(config), config.seed, forced, config.standard_errors)


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
    parts, weight = [], next(pooling.parameters())
    lookup = embedded(features, weight.dtype)
    with torch.no_grad():
        for first in range(0, len(exemplars), 128):
            batch = make_batch(exemplars, np.arange(first, min(first + 128, len(exemplars))), lookup)
            query, bags = batch.to(weight.device).queries_and_bags()
            assert isinstance(query, torch.Tensor)  # noqa: S101 - each has one reference
            targets = bags.with_values(bags.values[:, pooling.vector :])
            parts.append(pooling.match(query[:, pooling.vector :], targets)[:, 0].double().cpu().numpy())
    return np.concatenate(parts)


def fit_recipe(
    verifier: Verifier, sets: Sets, config: TrainingConfig, cache: Path, progress: Progress
) -> tuple[Verifier, Selection]:
    """The verifier of the selected recipe; if only the nearest target counts, it has the pooling ``nearest``."""
    features = embed_splits(verifier, sets, cache, progress)
    selection = choose_form(verifier, sets, features, config, progress)
    form = selection.form
    # An attention so sharp that only one target counts would not rank the others.
    if form.sharpness is None and isinstance(verifier.pooling, CrossAttentionPooling):
        plain = config.changed({"pooling": "nearest", "pooling_options": {}})
        nearest = create_verifier(plain, sets["train"].pool).to(verifier.device)
        nearest.backbone.load_state_dict(verifier.backbone.state_dict())
        verifier = nearest
    set_form(verifier.pooling, form)
    return verifier, selection


def fit_scale(verifier: Verifier, exemplars: ExemplarSet, features: Vectors, seed: int) -> None:
    """Fit scale and intercept of a pooling that no form describes, as trained by epochs from the start "similar"."""
    similarity = verifier.pooling.similarity
    references = exemplars.by_reference()
    some = references.subset(np.sort(np.random.default_rng([seed, 11]).permutation(len(references))[:1_500]))
    if not isinstance(similarity, ScaledProduct) or some.label.min() == some.label.max():
        return
    with evaluating(verifier), torch.no_grad():
        weight = np.ones(len(some)) if some.weight is None else some.weight / some.weight.mean()
        logit = predict(verifier, some, features).logit.astype(np.float64)
        slope, intercept = logistic(logit, some.label, weight)
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


def tell(selection: Selection, machine: Machine) -> dict[str, Any]:
    """Print the table of recipes, and return it for ``run.json``."""
    document = selection.document()
    if selection.rows:
        headings, rows, note = recipe_rows(document)
        machine.say(f"{aligned_table(headings, rows)}\n{note}")
    return document


VERIFIER_STAGES = (FROZEN, "all")  # the stages that end with a verifier


def stages_of(config: TrainingConfig, verifier: Verifier) -> list[Stage]:
    """The stages that train by gradient descent; a recipe that is fitted at once needs none after ``contrast``."""
    learns = any(True for _ in verifier.backbone.parameters())
    first = [Stage(CONTRAST, 2, False, config.contrast_epochs)] if learns and config.contrast_epochs else []
    if not trains_by_epochs(config):
        return first
    if not learns or not config.full_stage:
        return [*first, Stage(FROZEN, 0, True, config.patience, fits_start=True)]
    frozen = [Stage(FROZEN, 0, True, config.frozen_patience, fits_start=True)] if config.frozen_stage else []
    return [*first, *frozen, Stage("all", 1, False, config.patience, fits_start=not frozen)]


def trains_by_epochs(config: TrainingConfig) -> bool:
    """Whether weights learn by gradient descent after the start; what a recipe cannot express always does."""
    return config.recipe in ("epochs", "paper") or not is_expressible(config)


def run_stages(
    stages: list[Stage],
    verifier: Verifier,
    config: TrainingConfig,
    sets: Sets,
    run: RunFolder,
    machine: Machine,
    progress: Progress,
    *,
    is_new: bool,
) -> dict[str, StageState]:
    """Train the stages in order; a new verifier with the start "similar" starts from the selected recipe.

    The table of recipes is printed and recorded in ``run.json``.
    """
    states: dict[str, StageState] = {}
    for stage in stages:
        features = embed_splits(verifier, sets, machine.cache, progress) if stage.frozen else None
        has_begun, fitting = (run.checkpoints(stage.name) / LAST).is_file(), 0.0
        if stage.fits_start and is_new and not has_begun and config.start == "similar":
            known = features or embed_splits(verifier, sets, machine.cache, progress)
            began = time.monotonic()
            if verifier.pooling.starts_as_nearest:
                selection = choose_form(verifier, sets, known, config, progress)
                set_form(verifier.pooling, selection.form)
                run.record(recipes=tell(selection, machine))  # at once: a resumed run selects nothing
            if not is_expressible(config):
                fit_scale(verifier, sets["train"], known["train"], config.seed)
            fitting = time.monotonic() - began
        states[stage.name] = run_stage(stage, verifier, config, sets, run, machine, states, features, fitting)
    return states


def embed_splits(verifier: Verifier, sets: Sets, cache: Path, progress: Progress) -> SplitFeatures:
    """The features of train and validation."""
    return {
        split: embed_pool(verifier.backbone, sets[split].pool, cache, progress) for split in ("train", "validation")
    }
