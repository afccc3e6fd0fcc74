"""One selection for all recipes: who wins on which held-out bags, and what a run and the command say of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import miv
from miv import ExemplarSet, InstancePool, MIVError, Verifier
from miv.cli.app import app
from miv.data import save_splits
from miv.evaluation import auroc
from miv.evaluation.predicting import predict
from miv.evaluation.runs import recipe_rows
from miv.registry import Registry
from miv.training.fits import BagData
from miv.training.recipes import RECIPES, Form, Recipe
from miv.training.selection import Selection, select
from tests.training.tiny import SIMILAR, tiny_sets

CHANNELS = 4


def pairs(count: int, seed: int, signal: float, queries: int | None = None) -> BagData:
    """Bags of one target, similar in the first channel if the label is 1; ``queries`` are asked again and again."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(2 * count, CHANNELS)).astype(np.float32)
    query, target = np.arange(count) % (queries or count), np.arange(count, 2 * count)
    label = random.integers(0, 2, count).astype(np.int8)
    values[target, 0] = signal * (2 * label - 1) * values[query, 0] + random.normal(size=count)
    pool = InstancePool("features", values)
    return BagData.of(ExemplarSet(pool, query, np.arange(count + 1), target, label), values)


class Plain(Recipe):
    """Cosine."""

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        return {"": Form(scale=5.0)}


class Rich(Recipe):
    """Looks at the first channel more closely, or less."""

    builds_on = ("plain",)

    def fit(self, data: BagData, base: Form, seed: int) -> dict[str, Form]:
        maps = {"less": [0.5, 1, 1, 1], "more": [1.5, 1, 1, 1]}
        return {name: replace(base, map=np.diag(gains).astype(np.float32)) for name, gains in maps.items()}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    registry: Registry[Recipe] = Registry("recipe")
    registry.register("plain")(Plain)
    registry.register("rich")(Rich)
    monkeypatch.setattr("miv.training.selection.RECIPES", registry)
    return ["plain", "rich"]


def naive_losses(form: Form, data: BagData) -> list[float]:
    """Cross-entropies after a logistic regression on the logits."""
    logit = form.logits(data)[0]
    scaled = ((logit - logit.mean()) / logit.std())[:, None]
    probability = LogisticRegression(C=1.0, tol=1e-8).fit(scaled, data.label).predict_proba(scaled)
    return [-float(np.log(row[label])) for row, label in zip(probability, data.label, strict=True)]


def test_the_simplest_within_half_a_standard_error_of_the_best_wins(two: list[str]) -> None:
    """Exemplars of one query are no independent evidence: the error is over 50 queries."""
    train, choices = pairs(60, 0, 1.0), []
    for seed in range(12):
        held_out = pairs(1_000, seed, 0.1, queries=50)
        plain, *rich = [Plain().fit(train, Form(), 0)[""], *Rich().fit(train, Form(scale=5.0), 0).values()]
        losses = naive_losses(plain, held_out)
        best = min((naive_losses(form, held_out) for form in rich), key=sum)
        excess = sum(losses) - sum(best)
        of_queries = [0.0] * 50
        for number, (one, other) in enumerate(zip(losses, best, strict=True)):
            of_queries[number % 50] += one - other - excess / 1_000
        error = sum(square**2 for square in of_queries) ** 0.5
        assert abs(excess - error / 2) > 1e-3 * error, "an example too close to call"
        selection = select(train, held_out, two, 0)
        assert selection.recipe == ("rich" if excess > error / 2 else "plain")
        assert [row.recipe for row in selection.rows] == two
        assert [row.loss for row in selection.rows] == pytest.approx([sum(losses) / 1e3, sum(best) / 1e3], abs=1e-4)
        assert selection.rows[0].auroc == pytest.approx(auroc(held_out.label, plain.logits(held_out)[0]))
        choices.append(selection.recipe)
    assert set(choices) == {"plain", "rich"}, "examples of one kind"


def test_a_forced_recipe_is_taken_and_the_rows_stay(two: list[str]) -> None:
    train, held_out = pairs(60, 0, 3.0), pairs(1_000, 1, 3.0)
    chosen = {forced: select(train, held_out, two, 0, forced) for forced in two}
    assert [selection.recipe for selection in chosen.values()] == two
    for forced, selection in chosen.items():
        assert [row.recipe for row in selection.rows] == two
        assert (selection.form.map is None) == (forced == "plain")
        np.testing.assert_allclose(selection.logit, selection.form.logits(held_out)[0])
    assert chosen["rich"].rows[1].variant == "more"


@pytest.mark.parametrize(("validation", "expected"), [(1_000, 1_000), (999, 999 + 60), (None, 60)])
def test_a_large_validation_decides_alone_and_a_smaller_one_joins_the_folds(
    two: list[str], validation: int | None, expected: int
) -> None:
    train = pairs(60, 0, 1.0)
    held_out = None if validation is None else pairs(validation, 1, 1.0)
    selection = select(train, held_out, two, 0)
    assert len(selection.logit) == len(selection.label) == selection.document()["held_out"] == expected
    if held_out is not None:
        assert selection.label[: len(held_out)].tolist() == held_out.label.tolist()
    assert selection.weight.tolist() == [1.0] * expected  # no instance is in two bags


def shared(common: int, own: int) -> BagData:
    """Bags of so many targets that are in all bags, and so many of their own; each query is asked once."""
    count, random = 30, np.random.default_rng(0)
    values = random.normal(size=(count * (1 + own) + common, CHANNELS)).astype(np.float32)
    everywhere = np.arange(count * (1 + own), len(values))
    mine = count + np.arange(count * own).reshape(count, own)
    bags = [np.concatenate([row, everywhere]) for row in mine]
    exemplars = ExemplarSet.from_lists(InstancePool("features", values), np.arange(count), bags, np.arange(count) % 2)
    return BagData.of(exemplars, values)


@pytest.mark.parametrize(("common", "own", "share"), [(0, 3, 1.0), (1, 3, 0.8), (3, 1, 0.4)])
def test_held_out_bags_count_by_their_share_of_new_instances(common: int, own: int, share: float) -> None:
    selection = select(shared(common, own), None, ["nearest"], 0)
    assert selection.weight == pytest.approx(np.full(30, share))


def test_folds_of_known_instances_count_only_if_there_is_nothing_else() -> None:
    """Every instance, also as a query, is in many bags."""
    random = np.random.default_rng(0)
    values = random.normal(size=(6, CHANNELS)).astype(np.float32)
    everything = [random.permutation(6)[:4] for _ in range(60)]
    pool = InstancePool("features", values)
    exemplars = ExemplarSet.from_lists(pool, np.arange(60) % 6, everything, np.arange(60) // 6 % 2)
    train, validation = BagData.of(exemplars, values), pairs(40, 1, 1.0)
    assert select(train, None, ["nearest"], 0).weight.tolist() == [1.0] * 60
    with_validation = select(train, validation, ["nearest"], 0)
    assert len(with_validation.label) == 40


@pytest.mark.parametrize("name", RECIPES.names())
@pytest.mark.parametrize("lacking", ["a label", "bags"])
def test_where_nothing_can_be_held_out_the_first_recipe_is_taken(name: str, lacking: str) -> None:
    train = pairs(60, 0, 1.0)
    train = train.subset(train.label == 1 if lacking == "a label" else np.arange(60) < 2)
    selection = select(train, None, [name], 0)
    # There are no tokens here, and no map can be fitted to labels that are all the same.
    has_form = name != "tokens" and (name != "label_map" or lacking == "bags")
    assert selection.recipe == (name if has_form else "nearest")
    assert (selection.rows, len(selection.logit)) == ([], 0)
    assert np.isfinite(selection.form.logits(train)[0]).all()
    if not has_form:
        with pytest.raises(MIVError, match=f"recipe {name} cannot be fitted"):
            select(train, None, [name], 0, name)


def test_a_validation_of_one_label_cannot_judge() -> None:
    train, validation = pairs(60, 0, 1.0), pairs(60, 1, 1.0)
    selection = select(train, validation.subset(validation.label == 1), ["nearest", "centred"], 0)
    assert len(selection.label) == 60
    assert selection.label.sum() == train.label.sum()


def test_the_selection_is_the_same_twice() -> None:
    def figures(selection: Selection) -> list[Any]:
        return [replace(row, seconds=0.0) for row in selection.rows] + selection.logit.tolist()

    first, second = (select(shared(1, 3), pairs(40, 1, 1.0), RECIPES.names(), 7) for _ in range(2))
    assert figures(first) == figures(second)
    assert [row.recipe for row in first.rows] == [name for name in RECIPES.names() if name != "tokens"]


def test_the_table_marks_the_choice_and_says_if_it_loses_witnesses() -> None:
    plain = {"recipe": "nearest", "variant": "", "words": "Cosine.", "auroc": 0.7, "error": 0.01, "loss": 0.6}
    plain |= {"i_ap": 0.9, "seconds": 0.1}
    rich = {**plain, "recipe": "cap", "variant": "sharpness 4", "auroc": 0.81, "i_ap": 0.8}
    document: dict[str, Any] = {"chosen": "cap", "held_out": 1_200, "rows": [plain, rich]}
    _, rows, note = recipe_rows(document)
    assert rows[0] == ["  nearest", "0.700 ± 0.010", "0.600", "0.900", "0.1", "Cosine."]
    assert rows[1][:2] == ["→ cap", "0.810 ± 0.010"]
    assert rows[1][-1] == "Cosine. (sharpness 4)"
    assert "1,200 held-out" in note
    assert "cap ranks witnesses worse than nearest (i-AP 0.800, 0.900)" in note
    _, rows, note = recipe_rows({**document, "chosen": "nearest", "rows": [plain, {**rich, "i_ap": None}]})
    assert rows[1][3] == "–"
    assert "worse than nearest" not in note


# Through `miv.train` and the command.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    save_splits(tiny_sets("features", 100), tmp_path / "data", builder="test", options={}, seed=0)
    return tmp_path


def trained(*flags: str) -> Any:
    """What ``run.json`` says of the selection."""
    done = CliRunner().invoke(app, ["train", "data", "--out", "run", "--threads", "1", "--json", *flags])
    if isinstance(done.exception, MIVError):
        raise done.exception
    assert done.exit_code == 0, done.output
    document = json.loads(Path("run/run.json").read_text())["recipes"]
    assert json.loads(done.stdout)["recipes"] == document
    return document


def names(document: Any) -> list[str]:
    return [row["recipe"] for row in document["rows"]]


@pytest.mark.parametrize(
    ("flags", "compared"),
    [
        ([], [name for name in RECIPES.names() if name != "tokens"]),
        (["--recipes", "nearest,cap"], ["nearest", "cap"]),
        (["--recipes", "nearest,cap,whitened", "--without", "whitened"], ["nearest", "cap"]),
        (["--recipe", "label_map"], ["nearest", "centred", "whitened", "label_map"]),
        (["--recipe", "centred"], ["centred"]),
        (["--pooling", "nearest"], ["nearest"]),
        (["--pooling", "nearest", "--pooling-options", "centred=true"], ["centred"]),
    ],
)
def test_flags_decide_which_recipes_are_compared(folder: Path, flags: list[str], compared: list[str]) -> None:
    document = trained(*flags)
    assert names(document) == compared
    assert document["chosen"] in compared
    if "--recipe" in flags:
        assert document["chosen"] == flags[1]
    assert "## Recipes compared in training" in Path("run/verifier/README.md").read_text()
    assert not Path("run/checkpoints").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--recipes", "nearest,capp"], "Did you mean 'cap'"),
        (["--without", "whitned"], "Did you mean 'whitened'"),
        (["--recipe", "neerest"], "Did you mean 'nearest'"),
        (["--recipe", "tokens"], r"No recipe is left.* Possible: nearest, "),
        (["--recipes", "cap", "--without", "cap"], "No recipe is left"),
        (["--pooling", "baseline", "--recipe", "cap"], "No recipe is left for the pooling baseline"),
        (["--pooling", "gabmil", "--recipe", "nearest"], "no recipe expresses gabmil"),
        (["--recipe", "cap", "--recipes", "nearest,cap"], "recipe is 'cap', and recipes are nearest, cap"),
        (["--recipe", "cap", "--without", "cap"], "recipe is 'cap', and without names it too"),
        (["--recipe", "cap", "--max-epochs", "3"], "max_epochs is 3, and recipe is 'cap', which has no epochs"),
    ],
)
def test_a_recipe_that_does_not_exist_or_fit_is_an_error(folder: Path, flags: list[str], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        trained(*flags)
    assert not Path("run").exists()


def test_a_run_without_epochs_is_the_selected_form_and_can_be_evaluated_again(folder: Path) -> None:
    run = miv.train("data", out="run", recipes=("nearest", "cap"), baselines=False, verbose=False)
    document = json.loads(Path("run/run.json").read_text())
    assert document["done"] is True
    assert document["best"] == {"stage": document["recipes"]["chosen"], "epoch": 0}
    weights = Path("run/verifier/model.safetensors").read_bytes()
    Path("run/evaluation.json").unlink()
    again = miv.train(
        "data", out="run", recipes=("nearest", "cap"), baselines=False, verbose=False, resume=True
    )  # evaluates alone
    assert again.document() == run.document()
    assert Path("run/evaluation.json").is_file()
    assert Path("run/verifier/model.safetensors").read_bytes() == weights
    other = miv.train("data", out="other", recipes=("nearest", "cap"), baselines=False, verbose=False)
    assert Path("other/verifier/model.safetensors").read_bytes() == weights
    test = tiny_sets("features", 100)["test"]
    assert predict(Verifier.from_pretrained("other"), test).logit.tolist() == other.predictions("test").logit.tolist()


def test_epochs_begin_at_the_selected_recipe(folder: Path) -> None:
    """Rates that change nothing: the verifier of the epochs answers as that of the recipe."""
    settings = {**SIMILAR, "recipes": ("nearest", "cap"), "learning_rates": ((0, 1e-9),), "max_epochs": 1}
    epochs = miv.train("data", out="epochs", config=settings, baselines=False, verbose=False)
    document = json.loads(Path("epochs/run.json").read_text())
    assert document["best"]["stage"] == "frozen"
    assert names(document["recipes"]) == ["nearest", "cap"]
    plain = {name: settings[name] for name in ("start", "pooling_options", "recipes")} | {"recipe": "select"}
    alone = miv.train("data", out="alone", config=plain, baselines=False, verbose=False)
    found, expected = (run.predictions("test").logit for run in (epochs, alone))
    np.testing.assert_allclose(found, expected, atol=1e-3)
