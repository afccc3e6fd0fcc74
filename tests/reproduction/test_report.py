"""What a report says: figures beside the paper's, the order of the models, verdicts on claims, nothing from a twin."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from miv.evaluation import Predictions
from miv.reproduction.claims import judge_claims
from miv.reproduction.comparison import CellEvidence, Estimate, compare
from miv.reproduction.grids import EXPERIMENTS, Cell, Published, Setup
from miv.reproduction.jobs import Job
from miv.reproduction.tables import build_section, conclude, markdown, write_plots
from tests.reproduction.examples import answers_of, finish

EXEMPLARS = 200
LABEL = [place % 2 for place in range(EXEMPLARS)]
Shares = tuple[float, float | None]  # of right answers, and of witnesses that are found


def answers(right: float, found: float | None) -> Predictions:
    """Answers of which a share is right, and the witness found in a share of the positives."""
    places = [(place // 2) / (EXEMPLARS // 2) for place in range(EXEMPLARS)]
    logit = [1.0 if (label == 1) == (place < right) else -1.0 for place, label in zip(places, LABEL, strict=True)]
    return answers_of(logit, LABEL, None if found is None else [place < found for place in places])


def add(results: Path, setup: Setup, number: int, shares: Shares, task: str = "qmnist", tier: str = "cpu") -> None:
    finish(Job(Cell(task, setup, number), tier), answers(*shares), results)


def finished(results: Path, shares: Mapping[Setup, Shares], task: str = "qmnist") -> CellEvidence:
    for setup, some in shares.items():
        for number in range(2):
            add(results, setup, number, some, task)
    return CellEvidence(task, "cpu", (0, 1), results)


def plain(models: Mapping[str, Shares], task: str = "qmnist") -> dict[Setup, Shares]:
    rows = {row.model: row.setup for row in EXPERIMENTS[task]["classification"].rows}
    return {rows[model]: shares for model, shares in models.items()}


AS_IN_THE_PAPER: dict[str, Shares] = {
    "baseline": (0.70, 0.65),
    "gabmil": (0.65, 0.50),
    "pma": (0.64, 0.50),
    "msa": (0.63, None),
    "mi_net": (0.63, None),
    "bi_lstm": (0.62, None),
    "cap_vema": (0.90, 0.99),
    "cap_dba_l1": (0.90, 0.98),
    "cap_dba_l2": (0.92, 0.99),
}


def words(evidence: CellEvidence, experiment: str) -> dict[str, str]:
    return {verdict.claim.name: verdict.word for verdict in judge_claims(experiment, evidence)}


@pytest.mark.parametrize(
    ("ours", "paper", "word"),
    [
        (Estimate(0.740, 3, 0.0, 0.003), Published(0.732, 0.004), "within 2 SE"),  # 0.008 < 2 · 0.005
        (Estimate(0.743, 3, 0.0, 0.003), Published(0.732, 0.004), "above"),  # 0.011 > 2 · 0.005
        (Estimate(0.721, 3, 0.0, 0.003), Published(0.732, 0.004), "below"),
        (Estimate(0.740, 1, 0.005, None), Published(0.732, None), "within 2 SE"),  # by our error over exemplars
        (Estimate(0.740, 3, 0.0, 0.0), Published(0.7402, 0.0), "within 2 SE"),  # the paper rounds
        (Estimate(0.7, 1, float("nan"), None), Published(0.7, 0.0), ""),
    ],
)
def test_two_standard_errors_of_the_difference(ours: Estimate, paper: Published, word: str) -> None:
    assert compare(ours, paper) == word


def test_every_figure_is_of_the_rounds_that_its_row_has(tmp_path: Path) -> None:
    setups = {row.model: row.setup for row in EXPERIMENTS["qmnist"]["key_instance"].rows}
    for number, right in enumerate((0.6, 0.9, 0.9)):
        add(tmp_path, setups["baseline"], number, (right, 0.5))
    add(tmp_path, setups["gabmil"], 0, (0.7, 0.5))
    add(tmp_path, setups["cap_vema"], 0, (0.65, 0.5))
    evidence = CellEvidence("qmnist", "cpu", (0, 1, 2), tmp_path)
    section = build_section(EXPERIMENTS["qmnist"]["classification"], evidence)
    assert section.tables[0].rows[0][1:3] == ["3", "0.800 ± 0.100 (0.708) within 2 SE"]  # of all its rounds
    drawn = "".join(path.read_text() for path in write_plots(section, tmp_path / "plots"))
    assert "gabmil (1 round)" in drawn


def test_claims_are_reproduced_where_the_figures_are_as_in_the_paper(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER))
    verdicts = {**words(evidence, "classification"), **words(evidence, "key_instance")}
    assert len(verdicts) == 9
    own_score = "CAP > baseline in finding witnesses, by own score"
    assert {name for name, word in verdicts.items() if word != "reproduced"} <= {own_score}
    assert set(words(evidence, "headed").values()) == {"not run"}
    weakest = judge_claims("classification", evidence)[1].document()["weakest"]
    assert weakest["value"] == pytest.approx(0.2)
    assert weakest["low"] <= 0.2 <= weakest["high"]
    [baseline] = [one.document() for one in judge_claims("classification", evidence) if "baseline ≥" in one.claim.name]
    assert baseline["weakest"]["value"] == pytest.approx(baseline["range"][0]) == pytest.approx(0.05)
    assert baseline["weakest"]["what"].endswith("baseline − gabmil")


def test_a_claim_about_figures_that_were_never_measured_is_not_run(tmp_path: Path) -> None:
    without_witnesses = {model: (right, None) for model, (right, _) in AS_IN_THE_PAPER.items()}
    evidence = finished(tmp_path, plain(without_witnesses))
    assert set(words(evidence, "key_instance").values()) == {"not run"}


def test_claims_differ_where_the_figures_say_otherwise(tmp_path: Path) -> None:
    swapped = {**AS_IN_THE_PAPER, "baseline": (0.95, 0.995), "cap_vema": (0.64, 0.6)}
    evidence = finished(tmp_path, plain(swapped))
    verdicts = {**words(evidence, "classification"), **words(evidence, "key_instance")}
    assert verdicts["CAP > baseline in classification"] == "differs"
    assert verdicts["CAP > baseline in finding witnesses"] == "differs"
    assert verdicts["baseline ≥ benchmarks"] == "reproduced"


def test_one_round_and_figures_near_chance_are_inconclusive(tmp_path: Path) -> None:
    evidence = finished(tmp_path / "good", plain(AS_IN_THE_PAPER))
    single = CellEvidence("qmnist", "cpu", (0,), evidence.results)
    assert set(words(single, "classification").values()) == {"inconclusive"}
    low = {model: (0.5 + place / 100, found) for place, (model, (_, found)) in enumerate(AS_IN_THE_PAPER.items())}
    chance = finished(tmp_path / "chance", plain(low))
    assert set(words(chance, "classification").values()) == {"inconclusive"}
    assert words(chance, "key_instance")["CAP > baseline in finding witnesses"] == "reproduced"


@pytest.mark.parametrize(
    ("right", "word"), [(0.70, "reproduced"), (0.71, "reproduced"), (0.72, "inconclusive"), (0.90, "differs")]
)
def test_variants_are_equivalent_within_a_margin(tmp_path: Path, right: float, word: str) -> None:
    rows = EXPERIMENTS["qmnist"]["headed"].rows
    shares: dict[Setup, Shares] = {row.setup: (right if row.variant == "multi_head" else 0.7, 0.8) for row in rows}
    assert words(finished(tmp_path, shares), "headed") == {"multi-head projections matter little": word}


def test_the_steps_of_a_ladder_use_the_same_rounds(tmp_path: Path) -> None:
    """The last step and the baseline have a good round more, which the steps between lack."""
    table = EXPERIMENTS["qmnist"]["ablation"]
    for row in table.rows:
        add(tmp_path, row.setup, 0, (0.7, 0.5 if row.variant == "baseline" else 0.9))
    for row in table.rows:
        if row.variant in ("baseline", "+pre_layernorm") and row.model == "cap_vema":
            add(tmp_path, row.setup, 1, (0.9, 0.9))
    section = build_section(table, CellEvidence("qmnist", "cpu", (0, 1), tmp_path))
    figures = {row[0]: row for row in section.tables[0].rows}
    assert figures["cap_vema +pre_layernorm"][1] == "1"
    assert figures["cap_vema +pre_layernorm"][2].startswith("0.700 ± ")  # and not 0.8
    added = {row[0]: row for row in section.tables[1].rows}
    assert added["cap_vema +pre_layernorm"][1].startswith("+0.000 ± 0.000* (paper -0.008)")
    assert section.remarks[-1].endswith("share: 0.")
    assert [path.stem for path in write_plots(section, tmp_path / "plots")] == ["cpu-qmnist-ablation-figures"]


def test_the_size_study(tmp_path: Path) -> None:
    table = EXPERIMENTS["qmnist"]["size_study"]
    for row in table.rows:
        if row.model in ("baseline", "cap_vema"):
            add(tmp_path, row.setup, 0, (0.95, 0.9) if row.model == "cap_vema" else (0.7, 0.7))
    section = build_section(table, CellEvidence("qmnist", "cpu", (0,), tmp_path))
    assert section.tables[0].title == "AUROC, bags of 10 on average"
    assert section.tables[0].rows[0][1].startswith("0.700 ± ")
    [picture] = write_plots(section, tmp_path / "plots")
    assert picture.with_suffix(".png").is_file()


def test_the_report_in_all_forms(tmp_path: Path) -> None:
    evidence = finished(tmp_path / "results", plain(AS_IN_THE_PAPER))
    sections = [build_section(EXPERIMENTS["qmnist"][name], evidence) for name in ("classification", "key_instance")]
    plots = {section.key: write_plots(section, tmp_path / "plots") for section in sections}
    assert [len(paths) for paths in plots.values()] == [1, 1]
    text = markdown(sections, plots, tmp_path)
    assert "| baseline | 2 | 0.700 ± 0.000 (0.708) within 2 SE |" in text
    assert "](plots/cpu-qmnist-classification-figures.svg)" in text
    assert "| CAP > baseline in classification | reproduced: +0.200 [" in text
    document = json.loads(json.dumps([section.document for section in sections], allow_nan=False))
    first = document[0]["figures"][0]
    assert (first["ours"], first["paper"], first["verdict"], first["rounds"]) == (0.7, 0.708, "within 2 SE", 2)
    assert document[1]["claims"][0]["judgement"] == "reproduced"
    concluded = conclude(tmp_path / "results", "cpu", [0, 1]).document["grounds"]
    assert concluded["QMNIST"]["CAP > baseline in classification"]["judgement"] == "reproduced"
    assert concluded["signatures"]["CAP > baseline in classification"]["judgement"] == "not run"


def test_fevers_figures_are_not_a_yardstick_for_other_claims(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER, "claims"), "claims")
    section = build_section(EXPERIMENTS["claims"]["classification"], evidence)
    assert section.tables[0].title.endswith("the paper's on FEVER in brackets")
    assert section.tables[0].rows[0][2] == "0.700 ± 0.000 (0.864)"  # and no word


def test_nothing_is_said_of_the_paper_by_a_twin(tmp_path: Path) -> None:
    for setup, shares in plain(AS_IN_THE_PAPER).items():
        add(tmp_path, setup, 0, shares, tier="smoke")
    section = build_section(EXPERIMENTS["qmnist"]["classification"], CellEvidence("qmnist", "smoke", (0,), tmp_path))
    assert "synthetic twin" in section.remarks[0]
    assert "twin" in section.tables[0].title
    assert section.document["claims"] == []
    assert all(figure["paper"] is None and figure["verdict"] is None for figure in section.document["figures"])


def test_answers_by_digit(tmp_path: Path) -> None:
    table = EXPERIMENTS["qmnist"]["per_digit"]
    some = answers_of([1.0, -1.0, 1.0, 1.0], [1, 0, 0, 1])
    by_digit = Predictions(some.logit, some.label, some.ptr, None, some.witness, ["2", "2", "8", "1"])
    finish(Job(Cell("qmnist", table.rows[0].setup, 0), "cpu"), by_digit, tmp_path)
    section = build_section(table, CellEvidence("qmnist", "cpu", (0,), tmp_path))
    shares = next(table for table in section.tables if table.headings[0] == "digit")
    assert shares.rows[1] == ["2", "0.500 (0.266)", "0.500 (0.451)", "0.000 (0.137)", "0.000 (0.146)", "1.000 (0.717)"]
