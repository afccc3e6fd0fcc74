"""What is said of figures: verdicts, orders, claims, and that nothing is said of a twin."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miv.evaluation import Predictions
from miv.experiments.assertions import judge_claims
from miv.experiments.comparison import CellEvidence, compare, reference_of
from miv.experiments.contrasts import Compared
from miv.experiments.digits import digit_sentences, digit_table
from miv.experiments.experiment_report import build_section
from miv.experiments.grids import EXPERIMENTS, UNTRAINED, Cell, Setup
from miv.experiments.jobs import Job
from miv.experiments.judging import ABOVE, _judge
from miv.experiments.paired import Estimate
from miv.experiments.plots import write_plots
from miv.experiments.published import Published
from miv.experiments.ranking import ranking
from miv.experiments.render import html_page, markdown
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


def add(results: Path, setup: Setup, number: int, right: float, found: float | None, task: str = "qmnist") -> None:
    finish(Job(Cell(task, setup, number), "cpu"), answers(right, found), results)  # type: ignore[arg-type]


def finished(results: Path, shares: dict[Setup, tuple[float, float | None]], *, task: str = "qmnist") -> CellEvidence:
    for setup, (right, found) in shares.items():
        for number in range(2):
            add(results, setup, number, right, found, task)
    return CellEvidence(task, "cpu", (0, 1), results)


def plain(
    models: dict[str, tuple[float, float | None]], task: str = "qmnist"
) -> dict[Setup, tuple[float, float | None]]:
    rows = {row.model: row.setup for row in EXPERIMENTS[task]["classification"].rows}
    return {rows[model]: shares for model, shares in models.items()}


AS_IN_THE_PAPER: dict[str, tuple[float, float | None]] = {
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


def judged(evidence: CellEvidence, experiment: str) -> dict[str, str]:
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
    table = EXPERIMENTS["qmnist"]["classification"]
    order = ranking(table, evidence, "auroc")
    assert order is not None
    assert order.ours == (("baseline",), ("cap_vema",), ("gabmil",))
    assert order.paper == (("cap_vema",), ("baseline",), ("gabmil",))
    assert order.kendall == pytest.approx(1 / 3)  # two pairs agree, one does not
    assert order.spearman == pytest.approx(0.5)  # 1 - 6 · (1 + 1) / (3 · 8)
    assert str(order).startswith(
        "Order by AUROC: ours (rounds 0, 1) baseline > cap_vema > gabmil; the paper's cap_vema"
    )
    assert str(order).endswith("The winner differs from the paper's.")
    assert ranking(table.only(["msa"]), evidence, "auroc") is None


@pytest.mark.parametrize(
    ("winner", "words"),
    [("cap_dba_l2", "Our winner is among the paper's."), ("baseline", "The winner differs from the paper's.")],
)
def test_models_that_the_paper_prints_as_equals_are_equals(tmp_path: Path, winner: str, words: str) -> None:
    shares = {"baseline": (0.7, 0.6), "cap_vema": (0.7, 0.7), "cap_dba_l1": (0.7, 0.6), "cap_dba_l2": (0.7, 0.8)}
    evidence = finished(tmp_path, plain({**shares, winner: (0.7, 0.9)}))
    order = ranking(EXPERIMENTS["qmnist"]["key_instance"], evidence, "i_ap")
    assert order is not None
    assert order.paper == (("cap_vema", "cap_dba_l2"), ("cap_dba_l1",), ("baseline",))  # 0.784 twice
    assert "the paper's cap_vema = cap_dba_l2 > cap_dba_l1 > baseline." in str(order)
    assert str(order).endswith(words)
    ours = {"cap_dba_l2": "cap_dba_l2 > cap_vema > baseline = cap_dba_l1", "baseline": "baseline > cap_dba_l2"}
    assert f"ours (rounds 0, 1) {ours[winner]}" in str(order)


def test_models_are_ranked_on_the_rounds_that_all_have(tmp_path: Path) -> None:
    """The baseline has a bad first round, the only one that the others have."""
    setups = {row.model: row.setup for row in EXPERIMENTS["qmnist"]["classification"].rows}
    for number, right in enumerate((0.6, 0.9, 0.9)):
        add(tmp_path, setups["baseline"], number, right, 0.5)
    add(tmp_path, setups["gabmil"], 0, 0.7, 0.5)
    add(tmp_path, setups["cap_vema"], 0, 0.65, 0.5)
    evidence = CellEvidence("qmnist", "cpu", (0, 1, 2), tmp_path)
    table = EXPERIMENTS["qmnist"]["classification"]
    order = ranking(table, evidence, "auroc")
    assert order is not None
    assert (order.rounds, order.ours) == ((0,), (("gabmil",), ("cap_vema",), ("baseline",)))
    section = build_section(table, evidence)
    assert section.tables[0].rows[0][1:3] == ["3", "0.800 ± 0.100\n(0.708 ± 0.006)"]  # a figure is of all its rounds
    assert "ours (round 0) gabmil > cap_vema > baseline" in section.sentences[0]
    assert section.document()["order"][0]["rounds"] == (0,)
    paths = write_plots(section, tmp_path / "plots")
    words = "".join(path.read_text() for path in paths)
    assert "gabmil (1 round)" in words
    assert "Validation AUROC by epoch, all stages, round 0" in words


CLASSIFICATION_CLAIMS = [
    "baseline ≥ benchmarks",
    "CAP > baseline in classification",
    "CAP > benchmarks in classification",
    "witness gap > classification gap",
]
WITNESS_CLAIMS = [
    "CAP > baseline in finding witnesses",
    "CAP > benchmarks in finding witnesses",
    "witness gap > classification gap",
    "baseline > benchmarks in finding witnesses",
]


def by_every_scoring(*claims: str) -> list[str]:
    return [f"{claim}{scoring}" for claim in claims for scoring in ("", ", by own score", ", by first choice")]


def test_claims_hold_where_the_figures_are_as_in_the_paper(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER))
    assert judged(evidence, "classification") == dict.fromkeys(CLASSIFICATION_CLAIMS, "holds")
    assert judged(evidence, "key_instance") == dict.fromkeys(by_every_scoring(*WITNESS_CLAIMS), "holds")
    assert set(judged(evidence, "ablation").values()) == {"cannot be told"}
    claims = judge_claims(EXPERIMENTS["qmnist"]["classification"], evidence)
    assert len(claims[1].numbers) == 6  # three models, AUROC and accuracy
    assert claims[2].numbers[0] == "The 12 of 30 with the weakest evidence:"


def test_claims_fail_where_the_figures_say_otherwise(tmp_path: Path) -> None:
    shares = {**AS_IN_THE_PAPER, "gabmil": (0.95, 0.9), "cap_vema": (0.4, 0.60), "cap_dba_l2": (0.99, 0.62)}
    evidence = finished(tmp_path, plain(shares))
    assert judged(evidence, "classification") == dict.fromkeys(CLASSIFICATION_CLAIMS, "does not hold")
    assert judged(evidence, "key_instance") == dict.fromkeys(by_every_scoring(*WITNESS_CLAIMS), "does not hold")


def test_what_refutes_a_claim_is_what_shows_it_least(tmp_path: Path) -> None:
    shares = {**AS_IN_THE_PAPER, "cap_vema": (0.69, 0.66), "cap_dba_l2": (0.40, 0.66)}  # both are below the baseline
    claim = judge_claims(EXPERIMENTS["qmnist"]["classification"], finished(tmp_path, plain(shares)))[1]
    assert claim.judgement == "does not hold"
    assert claim.weakest is not None
    assert claim.weakest.what.endswith("of cap_dba_l2 − baseline")


def test_one_round_decides_nothing(tmp_path: Path) -> None:
    """However clear it is: the error over exemplars does not cover other training runs."""
    as_in_the_paper = replace(finished(tmp_path / "as", plain(AS_IN_THE_PAPER)), rounds=(0,))
    claims = judge_claims(EXPERIMENTS["qmnist"]["classification"], as_in_the_paper)
    assert {one.judgement for one in claims} == {"cannot be told"}
    assert all("but there is only one round of" in one.reason for one in claims)
    otherwise = {**AS_IN_THE_PAPER, "gabmil": (0.95, 0.5)}
    claims = judge_claims(
        EXPERIMENTS["qmnist"]["classification"],
        replace(finished(tmp_path / "otherwise", plain(otherwise)), rounds=(0,)),
    )
    assert claims[0].judgement == "cannot be told"
    assert claims[0].reason.startswith("Significantly below −0.02, but in one round only: AUROC of")


def test_claims_cannot_be_told_of_small_differences_and_missing_cells(tmp_path: Path) -> None:
    shares = {**AS_IN_THE_PAPER, "gabmil": (0.71, 0.5), "cap_vema": (0.71, 0.66)}
    near = replace(finished(tmp_path / "near", plain(shares)), rounds=(0,))
    claims = {one.name: one for one in judge_claims(EXPERIMENTS["qmnist"]["classification"], near)}
    assert {one.judgement for one in claims.values()} == {"cannot be told"}
    assert claims["baseline ≥ benchmarks"].reason.startswith("Not shown to be above −0.02: AUROC of baseline − gabmil;")
    assert claims["CAP > baseline in classification"].reason.startswith("Not shown to be above 0: AUROC of cap_vema −")
    few = {model: AS_IN_THE_PAPER[model] for model in ("baseline", "cap_vema")}
    evidence = finished(tmp_path / "few", plain(few))
    missing = judge_claims(EXPERIMENTS["qmnist"]["classification"], evidence)
    assert {one.judgement for one in missing} == {"cannot be told"}
    assert missing[0].reason == "Not computed yet: gabmil, pma, msa, mi_net, bi_lstm."


def test_nothing_is_read_from_differences_at_chance(tmp_path: Path) -> None:
    """All models classify between 0.45 and 0.55, and differ significantly; CAP alone finds the witnesses."""
    shares = {
        model: (0.55 if model.startswith("cap") else 0.45, found and 0.5)
        for model, (_, found) in AS_IN_THE_PAPER.items()
    }
    shares |= dict.fromkeys(("cap_vema", "cap_dba_l1", "cap_dba_l2"), (0.55, 0.9))
    evidence = finished(tmp_path, plain(shares, "claims"), task="claims")
    claims = judge_claims(EXPERIMENTS["claims"]["classification"], evidence)
    assert {one.judgement for one in claims} == {"cannot be told"}
    assert "AUROC is 0.450 to 0.550, where 0.5 is chance" in claims[1].reason
    assert judged(evidence, "key_instance") == {
        **dict.fromkeys(by_every_scoring(*WITNESS_CLAIMS[:2]), "holds"),
        **dict.fromkeys(by_every_scoring("witness gap > classification gap"), "cannot be told"),
    }
    remarks = build_section(EXPERIMENTS["claims"]["classification"], evidence).remarks
    assert remarks[-1].startswith("No model tells positives from negatives: AUROC is 0.450 to 0.550")


# Bags of four with one witness. By soft attention it is second of four in the one half and first in the other.
SOFT = {True: [0.6, 0.2, 0.1, 0.1], False: [0.3, 0.4, 0.2, 0.1]}


def of_four(first: float, one_hot: bool, score: bool = True) -> Predictions:
    """Answers whose first choice is the witness in a share of the bags; it is the second choice in the others."""
    found = [place / EXEMPLARS < first for place in range(EXEMPLARS)]
    soft = np.array([SOFT[one] for one in found]).ravel()
    hard = np.array([[1.0, 0, 0, 0] if one else [0, 1.0, 0, 0] for one in found]).ravel()
    witness = np.tile([True, False, False, False], EXEMPLARS)
    label = np.ones(EXEMPLARS)
    label[-1] = 0  # so that there is an AUROC
    return Predictions(
        label * 2 - 1, label, range(0, 4 * EXEMPLARS + 1, 4), hard if one_hot else soft, witness,
        score=soft if one_hot and score else None,
    )  # fmt: skip


@pytest.mark.parametrize("score", [True, False])
def test_a_lead_that_comes_from_ties_alone_is_none_when_all_are_scored_alike(tmp_path: Path, score: bool) -> None:
    """CAP makes no better first choice than the baseline, which is ranked by one-hot attention in the paper."""
    setups = {row.model: row.setup for row in EXPERIMENTS["qmnist"]["key_instance"].rows}
    for model, setup in setups.items():
        for number in range(2):
            answers = of_four(0.6 if model != "gabmil" else 0.5, model == "baseline", score)
            finish(Job(Cell("qmnist", setup, number), "cpu"), answers, tmp_path)
    evidence = CellEvidence("qmnist", "cpu", (0, 1), tmp_path)
    claims = {one.name: one for one in judge_claims(EXPERIMENTS["qmnist"]["key_instance"], evidence)}
    name = "CAP > baseline in finding witnesses"
    assert claims[name].judgement == "holds"
    assert claims[f"{name}, by own score"].judgement == "cannot be told"
    assert claims[f"{name}, by first choice"].judgement == "cannot be told"
    section = build_section(EXPERIMENTS["qmnist"]["key_instance"], evidence)
    [figures] = [table for table in section.tables if table.title == "Witnesses, all models scored alike"]
    rows = {row[0]: row[2:] for row in figures.rows}
    assert "A random order gives i-AUROC 0.500, i-AP 0.521 and i-top1 0.250." in figures.note
    assert rows["cap_vema"][0].startswith("0.868")  # 1 in 120 of 199 bags, 2 of 3 pairs in the rest
    if score:
        assert rows["baseline"] == rows["cap_vema"]
        assert claims[f"{name}, by own score"].numbers[0].startswith("own-score i-AUROC of cap_vema − baseline: +0.000")
    else:
        assert rows["baseline"][:2] == ["–", "–"]
        assert "The predictions of baseline were saved without a score" in figures.note
        assert claims[f"{name}, by own score"].reason.startswith(
            "The predictions of baseline have no own-score i-AUROC"
        )
    document = section.document()["scored_alike"]
    assert {one["metric"] for one in document["figures"]} == {
        "i_auroc_by_score", "i_ap_by_score", "i_auroc_one_hot", "i_ap_one_hot", "i_top1",
    }  # fmt: skip


def test_one_small_p_among_many_is_named_as_unshown(tmp_path: Path) -> None:
    """0.02 among six is 0.12 by Holm: the reason and the numbers say so."""
    compared = [Compared(f"contrast {n}", Estimate(0.02, 1, 0.02 / 2.33, None), 0.0) for n in range(1)]
    compared += [Compared(f"contrast {n}", Estimate(0.001, 1, 0.01, None), 1.0) for n in range(1, 6)]
    judgement, reason = _judge(compared, ABOVE)
    assert judgement == "cannot be told"
    assert reason.startswith("Not shown to be above 0: contrast 0; contrast 1;")
    evidence = finished(tmp_path, plain(AS_IN_THE_PAPER))
    claim = judge_claims(EXPERIMENTS["qmnist"]["classification"], evidence)[1]
    assert re.search(r"\(2 rounds, p .*, by Holm .*\)", claim.numbers[0])


def test_benchmarks_below_the_papers_are_a_caveat(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain({**AS_IN_THE_PAPER, "pma": (0.55, 0.5)}))
    claims = {one.name: one for one in judge_claims(EXPERIMENTS["qmnist"]["classification"], evidence)}
    for name in ("baseline ≥ benchmarks", "CAP > benchmarks in classification"):
        assert (
            "the AUROC of some benchmarks is below the paper's: pma 0.550 (the paper's 0.641). They may"
            in claims[name].reason
        )
    assert "pma" not in claims["CAP > baseline in classification"].reason


def ladder(found: Sequence[float]) -> dict[Setup, tuple[float, float | None]]:
    rows = [row for row in EXPERIMENTS["qmnist"]["ablation"].rows if row.model != UNTRAINED]
    steps = list(dict.fromkeys(row.variant for row in rows))
    at = dict(zip(steps, found, strict=True))
    return {row.setup: (0.7, at[row.variant]) for row in rows}


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
    assert judged(evidence, "ablation") == {
        **dict.fromkeys(by_every_scoring("attention function finds the witnesses"), judgement),
        "attention and co-excitation help most to classify": "cannot be told",  # nothing adds anything
    }
    table = EXPERIMENTS["qmnist"]["ablation"]
    steps = [reference_of(table, row) for row in table.rows[:3]]
    assert [step and step.variant for step in steps] == [None, "baseline", "+attention"]
    section = build_section(table, evidence)
    added = next(one for one in section.tables if one.title == "What each step adds")
    assert added.rows[0][0] == "cap_vema +attention"
    assert added.rows[0][3].startswith(f"{found[1] - found[0]:+.3f}")
    assert "(paper +0.135)" in added.rows[0][3]


@pytest.mark.parametrize(
    ("right", "judgement"),
    [([0.6, 0.8, 0.8, 0.9, 0.9], "holds"), ([0.6, 0.6, 0.8, 0.8, 0.9], "does not hold")],
)
def test_what_helps_to_classify(tmp_path: Path, right: list[float], judgement: str) -> None:
    steps = ladder(right)
    evidence = finished(tmp_path, {setup: (share or 0.0, 0.7) for setup, (_, share) in steps.items()})
    assert judged(evidence, "ablation")["attention and co-excitation help most to classify"] == judgement


def test_the_figures_of_a_ladder_are_of_the_same_rounds(tmp_path: Path) -> None:
    """The last step and the baseline have two good rounds more, which the steps between lack."""
    table = EXPERIMENTS["qmnist"]["ablation"]
    for setup, (right, found) in ladder([0.5, 0.7, 0.7, 0.7, 0.7]).items():
        add(tmp_path, setup, 0, right, found)
    for row in table.rows:
        if row.variant in ("baseline", "+pre_layernorm") and row.model == "cap_vema":
            add(tmp_path, row.setup, 1, 0.9, 0.9)
    evidence = CellEvidence("qmnist", "cpu", (0, 1), tmp_path)
    section = build_section(table, evidence)
    figures = {row[0]: row for row in section.tables[0].rows}
    assert figures["cap_vema +pre_layernorm"][1] == "1"
    assert figures["cap_vema +pre_layernorm"][2].startswith("0.700 ± ")  # and not 0.8
    added = {row[0]: row for row in section.tables[2].rows}
    assert added["cap_vema +pre_layernorm"][1].startswith("+0.000 ± 0.000* (paper -0.008)")
    assert section.remarks[-1].endswith("the figures use the rounds that all computed rows share: 0.")
    [picture] = write_plots(section, tmp_path / "plots")
    assert "round 0" in picture.read_text()


def variants(right: float) -> dict[Setup, tuple[float, float | None]]:
    rows = EXPERIMENTS["qmnist"]["headed"].rows
    return {row.setup: (right if row.variant == "multi_head" else 0.7, 0.8) for row in rows}


@pytest.mark.parametrize(
    ("right", "judgement"),
    [
        (0.70, "holds"),
        (0.71, "holds"),  # significant, but too small to matter
        (0.72, "cannot be told"),
        (0.90, "does not hold"),
    ],
)
def test_variants_are_equivalent_within_a_margin(tmp_path: Path, right: float, judgement: str) -> None:
    evidence = finished(tmp_path, variants(right))
    name = "multi-head projections matter little"
    assert judged(evidence, "headed") == {name: judgement}
    [claim] = judge_claims(EXPERIMENTS["qmnist"]["headed"], evidence)
    assert claim.numbers[0].startswith(f"AUROC of cap_vema, multi_head − non_headed: {right - 0.7:+.3f}")
    assert claim.numbers[0].endswith("for 0.02 or more to either side)")
    assert judged(evidence, "layernorm") == {"the place of the LayerNorm matters little": "cannot be told"}


@pytest.mark.slow
def test_the_size_study(tmp_path: Path) -> None:
    table = EXPERIMENTS["qmnist"]["size_study"]
    shares: dict[Setup, tuple[float, float | None]] = {}
    lost = {"10": 0.0, "20": 0.1, "50": 0.2}
    for row in table.rows:
        right = 0.95 if row.model.startswith("cap") else 0.7 - lost[row.variant.split("_")[1]]
        shares[row.setup] = (right, None if row.model == "msa" else 0.9 if row.model.startswith("cap") else 0.7)
    evidence = finished(tmp_path, shares)
    assert judged(evidence, "size_study") == {
        **dict.fromkeys(by_every_scoring("CAP is ahead at every size"), "holds"),
        "CAP is less sensitive to bag size": "holds",
    }
    # Against the baseline all is well; a benchmark that is as good at one size is enough.
    other = next(row for row in table.rows if (row.model, row.variant) == ("pma", "bag_50_exemplars_24000"))
    even = finished(tmp_path / "even", {**shares, other.setup: (0.95, 0.9)})
    assert judged(even, "size_study") == {
        **dict.fromkeys(by_every_scoring("CAP is ahead at every size"), "cannot be told"),
        "CAP is less sensitive to bag size": "does not hold",
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
    assert words.rows[-2][1] == "+0.178\nabove"
    assert words.rows[-1] == ["nearest", *["–"] * 5]
    assert sections[0].sentences[0].startswith("Order by AUROC: ours (rounds 0, 1) cap_dba_l2 > ")
    plots = {f"qmnist-{s.experiment.name}": write_plots(s, tmp_path / "plots") for s in sections}
    assert [len(paths) for paths in plots.values()] == [2, 2]
    text = markdown(sections, plots, tmp_path)
    assert "| baseline | 2 | 0.700 ± 0.000<br>(0.708 ± 0.006) |" in text
    assert "](plots/cpu-qmnist-classification-figures.svg)" in text
    assert "**CAP > baseline in classification: holds.**" in text
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
    assert section.tables[0].title == "Our figures, with the paper's on FEVER in brackets"
    assert section.tables[0].rows[0][2] == "0.700 ± 0.000\n(0.864 ± 0.004)"
    assert not any(one.word for one in section.found)
    assert section.sentences
    assert section.claims[1].judgement == "holds"
    witnesses = judged(evidence, "key_instance")
    assert "baseline > benchmarks in finding witnesses" not in witnesses  # the paper says it of other tasks


def test_nothing_is_said_of_the_paper_by_a_twin(tmp_path: Path) -> None:
    for setup, (right, found) in plain(AS_IN_THE_PAPER).items():
        finish(Job(Cell("qmnist", setup, 0), "smoke"), answers(right, found), tmp_path)  # type: ignore[arg-type]
    section = build_section(EXPERIMENTS["qmnist"]["classification"], CellEvidence("qmnist", "smoke", (0,), tmp_path))
    assert "synthetic twin" in section.remarks[0]
    assert (section.claims, section.sentences) == ([], [])
    assert all(one.paper is None and not one.word for one in section.found)
    assert "twin" in section.tables[0].title


def test_one_round_is_marked(tmp_path: Path) -> None:
    evidence = CellEvidence("qmnist", "cpu", (0,), finished(tmp_path, plain(AS_IN_THE_PAPER)).results)
    table = build_section(EXPERIMENTS["qmnist"]["key_instance"], evidence).tables[0]
    expected = np.sqrt(0.65 * 0.35 / 99)  # of a share of 0.65 among 100 positives
    assert table.rows[0][2].startswith(f"0.650 ± {expected:.3f}*")
    assert "comes from one round" in table.note
    partial = CellEvidence("qmnist", "cpu", (0, 1, 2), tmp_path)
    remarks = build_section(EXPERIMENTS["qmnist"]["key_instance"], partial).remarks
    assert remarks[-1].startswith("12 of 21 cells are done")


def test_a_model_without_attention_has_no_panel_of_entropy(tmp_path: Path) -> None:
    evidence = finished(tmp_path, plain({"baseline": (0.7, 0.65), "msa": (0.7, None)}))
    both = replace(
        EXPERIMENTS["qmnist"]["key_instance"],
        rows=tuple(row for row in EXPERIMENTS["qmnist"]["classification"].rows if row.model in ("baseline", "msa")),
    )
    [_, entropy] = write_plots(build_section(both, evidence), tmp_path / "plots")
    assert "msa" not in entropy.read_text()
    alone = replace(both, rows=both.rows[1:])
    assert write_plots(build_section(alone, evidence), tmp_path / "alone") == []


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
