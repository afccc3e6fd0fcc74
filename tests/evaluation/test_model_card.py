"""A verifier beside the baselines: when to say that it is below them, and the model card."""

from pathlib import Path

import pytest

from miv.evaluation import Evaluation, Predictions, evaluate
from miv.evaluation.baselines import Baselines, Figures
from miv.evaluation.model_card import advice, write_card
from miv.evaluation.runs import RunFolder
from miv.files.json import write_json
from miv.training.config import TrainingConfig

# Four positives and four negatives; of 16 pairs, so many are in order.
RIGHT = {1.0: [9, 8, 7, 6, 5, 4, 3, 2], 0.75: [9, 8, 7, 2, 6, 5, 4, 3], 0.5: [1] * 8}


def answers(auroc: float, labels: tuple[int, ...] = (1, 1, 1, 1, 0, 0, 0, 0)) -> Evaluation:
    return evaluate(Predictions(RIGHT[auroc], label=labels, ptr=range(9)))


def plain(**auroc: tuple[float | None, float | None]) -> Baselines:
    """By method, on validation and on test."""
    return Baselines({
        split: {name: Figures(both[number], None, None) for name, both in auroc.items()}
        for number, split in enumerate(("validation", "test"))
    })  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "my run")
    run.path.mkdir()
    about = {
        "format": "miv-run",
        "done": True,
        "seed": 0,
        "data": {"name": "my data", "options": {}, "fingerprints": {}},
    }
    write_json(run.about, about)
    write_json(run.config, TrainingConfig(backbone="compact_cnn").document())
    return run


def test_the_method_is_chosen_on_validation_and_compared_on_test(run: RunFolder) -> None:
    both = {"validation": answers(1.0), "test": answers(0.75)}
    text = advice(both, plain(nearest=(0.8, 0.9), mean=(0.7, 0.99)), run)
    assert "its AUROC on test is 0.750, and 0.900 is that of `nearest`, the best plain method on validation" in text
    assert advice(both, plain(nearest=(0.8, 0.76), mean=(0.7, 0.99)), run) == ""  # 0.01 is no difference
    silent_on_test = advice({"validation": answers(0.5), "test": answers(0.5)}, plain(nearest=(0.9, None)), run)
    assert "on validation is 0.500, and 0.900" in silent_on_test
    only = advice({"validation": answers(0.5)}, plain(nearest=(0.8, None)), run)
    assert "on validation is 0.500, and 0.800" in only


def test_the_advice_names_the_recipe_that_is_better(run: RunFolder) -> None:
    text = advice({"test": answers(0.5)}, plain(nearest=(0.8, 0.6), centred=(0.85, 0.8)), run)
    assert "`--recipe centred` makes such a verifier. More exemplars or another backbone" in text
    assert "--recipe" not in advice({"test": answers(0.5)}, plain(logistic=(0.9, 0.9)), run)


def test_the_card_carries_the_figures_and_keeps_what_was_written(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text("---\nlicense: mit\n---\nMine.\n")
    write_card(tmp_path, "cap_vema", {"test": answers(1.0)}, None)
    assert "| verifier (cap_vema) | 1.0000 * | – | – |" in card.read_text()
    assert "nearest" not in card.read_text()
    card.write_text(card.read_text() + "After.\n")
    write_card(tmp_path, "cap_vema", {"test": answers(0.75)}, plain(nearest=(0.7, 0.9)))
    text = card.read_text()
    assert text.startswith("---\nlicense: mit\n---\nMine.\n")
    assert text.endswith("After.\n")
    assert "| verifier (cap_vema) | 0.7500 | – | – |\n| nearest | 0.9000 * | – | – |" in text
    assert "- `nearest`: cosine of the query and its nearest target" in text
    assert "1.0000" not in text
    write_card(tmp_path, "cap_vema", {"test": answers(0.75)}, plain(nearest=(0.7, 0.9)))
    assert card.read_text() == text
