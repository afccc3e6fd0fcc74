"""What is said of figures: verdicts, orders, claims, and that nothing is said of a twin."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miv.experiments.claims import judge_claims
from miv.experiments.digits import digit_sentences, digit_table
from miv.experiments.grids import EXPERIMENTS, Cell, Setup
from miv.experiments.jobs import Job
from miv.experiments.paired import Estimate
from miv.experiments.plots import write_plots
from miv.experiments.published import Published
from miv.experiments.render import html_page, markdown
from miv.experiments.report import build_section
from miv.experiments.verdict import Evidence, compare, ranking, reference_of, verdicts
from tests.experiments.examples import answers_of, finish

EXEMPLARS = 200
LABEL = [place % 2 for place in range(EXEMPLARS)]


def answers(right: float, found: float | None) -> object:
    """Answers of which a share is right, and the witness found in a share of the positives."""
    logit = []
    for place, label in enumerate(LABEL):
        is_right = (place // 2) / (EXEMPLARS // 2) < right
        logit.append(1.0 if (label == 1) == is_right else -1.0)
    attention = None if found is None else [(place // 2) / (EXEMPLARS // 2) < found for place in range(EXEMPLARS)]
    return answers_of(logit, LABEL, attention)


def finished(results: Path, shares: dict[Setup, tuple[float, float | None]], *, task: str = "qmnist") -> Evidence:
    for setup, (right, found) in shares.items():
        for number in range(2):
            finish(Job(Cell(task, setup, number), "cpu"), answers(right, found), results)  # type: ignore[arg-type]
    return Evidence(task, "cpu", (0, 1), results)


def plain(
    models: dict[str, tuple[float, float | None]], task: str = "qmnist"
) -> dict[Setup, tuple[float, float | None]]:
    rows = {row.model: row.setup for row in EXPERIMENTS[task]["classification"].rows}
    return {rows[model]: shares for model, shares in models.items()}


AS_IN_THE_PAPER: dict[str, tuple[float, float | None]] = {
    "baseline": (0.70, 0.60),
    "gabmil": (0.65, 0.50),
    "pma": (0.64, 0.50),
    "msa": (0.63, None),
    "mi_net": (0.63, None),
    "bi_lstm": (0.62, None),
    "cap_vema": (0.90, 0.99),
    "cap_dba_l1": (0.90, 0.98),
    "cap_dba_l2": (0.92, 0.99),
}


def judged(evidence: Evidence, experiment: str) -> dict[str, str]:
    return {one.name: one.judgement for one in judge_claims(EXPERIMENTS[evidence.task][experiment], evidence)}


@pytest.mark.parametrize(
    ("ours", "paper", "word"),
    [
        (Estimate(0.740, 3, 0.0, 0.003), Published(0.732, 0.004), "within 2 SE"),  # 0.008 < 2 · 0.005
        (Estimate(0.743, 3, 0.0, 0.003), Published(0.732, 0.004), "above"),  # 0.011 > 2 · 0.005
        (Estimate(0.721, 3, 0.0, 0.003), Published(0.732, 0.004), "below"),
        (Estimate(0.740, 1, 0.005, None), Published(0.732, None), "within 2 SE"),  # by our error over exemplars
        (Estimate(0.740, 3, 0.0, 0.0), Published(0.7402, 0.0), "within 2 SE"),  # the paper rounds
        (None, Published(0.7, 0.0), ""),
        (Estimate(0.7, 1, float("nan"), None), Published(0.7, 0.0), ""),
    ],
)
def test_two_standard_errors_of_the_difference(ours: Estimate | None, paper: Published, word: str) -> None:
    assert compare(ours, paper) == word


def test_the_order_of_the_models(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain({"baseline": (0.9, 0.5), "gabmil": (0.7, 0.5), "cap_vema": (0.8, 0.9)}))
    found = verdicts(EXPERIMENTS["qmnist"]["classification"], evidence)
    order = ranking(found, "auroc")
    assert order is not None
    assert order.ours == ("baseline", "cap_vema", "gabmil")
    assert order.paper == ("cap_vema", "baseline", "gabmil")
    assert order.kendall == pytest.approx(1 / 3)  # two pairs agree, one does not
    assert order.spearman == pytest.approx(0.5)  # 1 - 6 · (1 + 1) / (3 · 8)
    assert ranking([one for one in found if one.row.model == "msa"], "auroc") is None


def test_claims_hold_where_the_figures_are_as_in_the_paper(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER))
    assert judged(evidence, "classification") == {
        "baseline ≥ benchmarks": "holds",
        "CAP > baseline": "holds",
        "witness gap > classification gap": "holds",
    }
    assert judged(evidence, "ablation") == {"attention function is the main contributor": "cannot be told"}


def test_claims_fail_where_the_figures_say_otherwise(tmp_path: Path) -> None:
    shares = {**AS_IN_THE_PAPER, "gabmil": (0.95, 0.5), "cap_vema": (0.4, 0.99), "cap_dba_l2": (0.99, 0.62)}
    assert set(judged(finished(tmp_path, plain(shares)), "classification").values()) == {"does not hold"}


def test_claims_cannot_be_told_of_small_differences_and_missing_cells(tmp_path: Path) -> None:
    shares = {**AS_IN_THE_PAPER, "gabmil": (0.71, 0.5), "cap_vema": (0.71, 0.61)}
    near = replace(finished(tmp_path / "near", plain(shares)), rounds=(0,))
    assert set(judged(near, "classification").values()) == {"cannot be told"}
    few = {model: AS_IN_THE_PAPER[model] for model in ("baseline", "cap_vema")}
    evidence = finished(tmp_path / "few", plain(few))
    claims = judge_claims(EXPERIMENTS["qmnist"]["classification"], evidence)
    assert {one.judgement for one in claims} == {"cannot be told"}
    assert claims[0].reason == "Not computed yet: gabmil, pma, msa, mi_net, bi_lstm."


def ladder(found: Sequence[float]) -> dict[Setup, tuple[float, float | None]]:
    steps = list(dict.fromkeys(row.variant for row in EXPERIMENTS["qmnist"]["ablation"].rows))
    at = dict(zip(steps, found, strict=True))
    return {row.setup: (0.7, at[row.variant]) for row in EXPERIMENTS["qmnist"]["ablation"].rows}


@pytest.mark.parametrize(
    ("found", "judgement"),
    [
        ([0.3, 0.9, 0.9, 0.92, 0.93], "holds"),
        ([0.3, 0.4, 0.9, 0.92, 0.93], "does not hold"),
        ([0.3, 0.5, 0.7, 0.72, 0.73], "cannot be told"),
    ],
)
def test_which_step_of_the_ladder_contributes_most(tmp_path: Path, found: list[float], judgement: str) -> None:
    evidence = finished(tmp_path, ladder(found))
    assert judged(evidence, "ablation") == {"attention function is the main contributor": judgement}
    table = EXPERIMENTS["qmnist"]["ablation"]
    steps = [reference_of(table, row) for row in table.rows[:3]]
    assert [step and step.variant for step in steps] == [None, "baseline", "+attention"]
    section = build_section(table, evidence)
    added = next(one for one in section.tables if one.title == "What each step adds")
    assert added.rows[0][0] == "cap_vema +attention"
    assert added.rows[0][3].startswith(f"{found[1] - found[0]:+.3f}")
    assert "(paper +0.135)" in added.rows[0][3]


def test_variants_that_differ_and_that_do_not(tmp_path: Path) -> None:
    rows = EXPERIMENTS["qmnist"]["headed"].rows
    same = finished(tmp_path / "same", {row.setup: (0.7, 0.8) for row in rows})
    assert judged(same, "headed") == {"multi-head projections matter little": "holds"}
    other = finished(
        tmp_path / "other", {row.setup: (0.9 if row.variant == "multi_head" else 0.6, 0.8) for row in rows}
    )
    assert judged(other, "headed") == {"multi-head projections matter little": "does not hold"}
    assert judged(other, "layernorm") == {"the place of the LayerNorm matters little": "cannot be told"}


def test_the_size_study(tmp_path: Path) -> None:
    table = EXPERIMENTS["qmnist"]["size_study"]
    shares: dict[Setup, tuple[float, float | None]] = {}
    for row in table.rows:
        loss = 0.2 if "bag_50" in row.variant and row.model == "baseline" else 0.0
        shares[row.setup] = (0.95 if row.model.startswith("cap") else 0.7 - loss, None if row.model == "msa" else 0.7)
    evidence = finished(tmp_path, shares)
    assert judged(evidence, "size_study") == {
        "CAP is ahead at every size": "holds",
        "CAP is less sensitive to bag size": "holds",
    }
    section = build_section(table, evidence)
    assert section.tables[0].title == "AUROC, bags of 10 on average"
    assert section.tables[0].rows[0][:2] == ["baseline", "0.700 ± 0.000"]
    [picture] = write_plots(section, tmp_path / "plots")
    assert picture.with_suffix(".png").is_file()


def test_the_report_in_all_forms(tmp_path: Path) -> None:
    evidence = finished(tmp_path / "results", plain(AS_IN_THE_PAPER))
    sections = [build_section(EXPERIMENTS["qmnist"][name], evidence) for name in ("classification", "key_instance")]
    figures, words = sections[0].tables[:2]
    assert figures.rows[0][:3] == ["baseline", "2", "0.700 ± 0.000\n(0.708 ± 0.006)"]
    assert words.rows[0][1] == "-0.008\nwithin 2 SE"
    assert words.rows[-1][1] == "+0.178\nabove"
    assert sections[0].sentences[0].startswith("Order by AUROC: ours cap_dba_l2 > ")
    plots = {f"qmnist-{s.experiment.name}": write_plots(s, tmp_path / "plots") for s in sections}
    assert [len(paths) for paths in plots.values()] == [2, 2]
    text = markdown(sections, plots, tmp_path)
    assert "| baseline | 2 | 0.700 ± 0.000<br>(0.708 ± 0.006) |" in text
    assert "](plots/cpu-qmnist-classification-figures.svg)" in text
    assert "**CAP > baseline: holds.**" in text
    page = html_page(sections, plots)
    assert page.count("data:image/svg+xml;base64,") == 4
    assert "http" not in page.split("<body>")[1]
    document = json.loads(json.dumps([section.document() for section in sections], allow_nan=False))
    first = document[0]["figures"][0]
    assert (first["ours"], first["paper"], first["verdict"], first["rounds"]) == (0.7, 0.708, "within 2 SE", 2)
    assert document[1]["claims"][0]["judgement"] == "holds"


def test_fevers_figures_are_not_a_yardstick_for_other_claims(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER, "claims"), task="claims")
    section = build_section(EXPERIMENTS["claims"]["classification"], evidence)
    assert section.tables[0].title == "Ours, and in brackets the paper's of FEVER"
    assert section.tables[0].rows[0][2] == "0.700 ± 0.000\n(0.864 ± 0.004)"
    assert not any(one.word for one in section.found)
    assert section.sentences
    assert section.claims[1].judgement == "holds"


def test_nothing_is_said_of_the_paper_by_a_twin(tmp_path: Path) -> None:
    for setup, (right, found) in plain(AS_IN_THE_PAPER).items():
        finish(Job(Cell("qmnist", setup, 0), "smoke"), answers(right, found), tmp_path)  # type: ignore[arg-type]
    section = build_section(EXPERIMENTS["qmnist"]["classification"], Evidence("qmnist", "smoke", (0,), tmp_path))
    assert "synthetic twin" in section.remarks[0]
    assert (section.claims, section.sentences) == ([], [])
    assert all(one.paper is None and not one.word for one in section.found)
    assert "twin" in section.tables[0].title


def test_one_round_is_marked(tmp_path: Path) -> None:
    evidence = Evidence("qmnist", "cpu", (0,), finished(tmp_path, plain(AS_IN_THE_PAPER)).results)
    table = build_section(EXPERIMENTS["qmnist"]["key_instance"], evidence).tables[0]
    expected = np.sqrt(0.6 * 0.4 / 99)  # of a share of 0.6 among 100 positives
    assert table.rows[0][2].startswith(f"0.600 ± {expected:.3f}*")
    assert "over exemplars" in table.note
    partial = Evidence("qmnist", "cpu", (0, 1, 2), tmp_path)
    remarks = build_section(EXPERIMENTS["qmnist"]["key_instance"], partial).remarks
    assert remarks[-1].startswith("12 of 18 cells are done")


def test_answers_by_digit(tmp_path: Path) -> None:
    setup = EXPERIMENTS["qmnist"]["per_digit"].rows[0].setup
    given = answers_of([1.0, -1.0, 1.0, 1.0], [1, 0, 0, 1])
    by_digit = type(given)(given.logit, given.label, given.ptr, None, given.witness, ["2", "2", "8", "1"])
    result = finish(Job(Cell("qmnist", setup, 0), "cpu"), by_digit, tmp_path)
    [table] = digit_table([result], with_paper=True)
    assert [row[0] for row in table.rows] == ["1", "2", "8"]
    assert table.rows[1] == ["2", "0.500 (0.266)", "0.500 (0.451)", "0.000 (0.137)", "0.000 (0.146)", "1.000 (0.717)"]
    assert "the paper's 2 > 8 > 1" in digit_sentences([result])[0]
    assert digit_table([], with_paper=True) == []
