"""What docs/results says is what its cells say, and can be had on a machine without the raw data."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from miv.cli.app import app
from miv.data import csr
from miv.decisions.operating_point import OperatingPoint
from miv.evaluation import AuditReport, Predictions, evaluate
from miv.evaluation.audit_report import markdown_table, tables
from miv.experiments.packed_cells import read_packed
from miv.models.shipped import shipped_folder

RESULTS = Path(__file__).parents[2] / "docs" / "results"
README = (RESULTS / "README.md").read_text("utf-8")
WORDS = " ".join(README.split())  # wherever its lines end
FROZEN = re.search(r"^for part in (.*); do$", README, re.MULTILINE).group(1).split()  # type: ignore[union-attr]
PAGES = re.search(r"^for page in (.*); do$", README, re.MULTILINE).group(1).split()  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without raw data and cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--results", str(RESULTS)])
    assert done.exit_code == 0, done.output
    return done.stdout


@cache  # several tests read it, and to compute it takes seconds
def sections(task: str) -> dict[str, dict[str, Any]]:
    """What is computed of a task, by experiment; no test may change it."""
    names = [name.rsplit("-", 1)[1] for name in PAGES if name.rsplit("-", 1)[0] == task]
    return {name: json.loads(run(task, name, "--report-only", "--json"))[0] for name in names}


def test_every_page_is_in_the_command_that_writes_them() -> None:
    generated = [path.stem for path in RESULTS.glob("*-*.md") if "tier cpu" in path.read_text("utf-8").split("\n")[0]]
    assert sorted(PAGES) == sorted(generated)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_the_cells_say(name: str, tmp_path: Path) -> None:
    page = (RESULTS / f"{name}.md").read_text("utf-8").rstrip("\n").split("\n\n")
    pictures = [part for part in page if part.startswith("![")]
    run(*name.rsplit("-", 1), "--report-only", "--format", "markdown", "--out", "page.md")
    written = (tmp_path / "page.md").read_text("utf-8").rstrip("\n").split("\n\n")
    assert [part for part in page if part not in pictures] == written
    assert pictures
    for picture in pictures:
        path = RESULTS / picture.split("](")[1].removesuffix(")")
        assert path.is_file()
        assert path.with_suffix(".png").is_file()


HEADINGS = {
    "qmnist": "on QMNIST",
    "signature": "on signatures",
    "fever-dev": "on FEVER's development set",
    "claims": "on Fool Me Twice",
}


@pytest.mark.parametrize("name", FROZEN)
def test_a_page_of_the_tier_frozen_says_what_its_cells_say(name: str, tmp_path: Path) -> None:
    page = (RESULTS / f"frozen-{name}.md").read_text("utf-8").rstrip("\n").split("\n\n")
    run("qmnist", name, "--tier", "frozen", "--report-only", "--format", "markdown", "--out", "page.md")
    written = (tmp_path / "page.md").read_text("utf-8").rstrip("\n").split("\n\n")
    assert [part for part in page if not part.startswith("![")] == written


@pytest.mark.parametrize(
    ("asked", "name"),
    re.findall(r"^miv reproduce (\S+ \S+ --tier .*) --out docs/results/(\S+) ", README, re.MULTILINE),
)
def test_a_page_with_a_command_of_its_own_says_what_its_cells_say(asked: str, name: str, tmp_path: Path) -> None:
    page = (RESULTS / name).read_text("utf-8").rstrip("\n").split("\n\n")
    run(*asked.split(), "--out", "page.md")
    written = (tmp_path / "page.md").read_text("utf-8").rstrip("\n").split("\n\n")
    assert [part for part in page if not part.startswith("![")] == written


def test_the_conclusions_are_those_of_the_cells(tmp_path: Path) -> None:
    run("--conclusions", "--format", "markdown", "--out", "page.md")
    page = (RESULTS / "conclusions.md").read_text("utf-8")
    assert page == (tmp_path / "page.md").read_text("utf-8"), "Run `miv reproduce --conclusions`, as the README says."


@pytest.mark.parametrize("task", HEADINGS)
def test_the_summary_has_the_figures_and_judgements_of_the_cells(task: str) -> None:
    found = sections(task)
    tables = (found["classification"], found["key_instance"])
    figures = {(one["model"], one["metric"]): one for table in tables for one in table["figures"]}
    for model in dict.fromkeys(one["model"] for one in found["classification"]["figures"] if one["rounds"]):
        both = [figures.get((model, metric), {}) for metric in ("auroc", "i_auroc")]
        ours = " | ".join(f"{one['ours']:.3f} ± {one['standard_error']:.3f}" if one else "–" for one in both)
        paper = " / ".join("–" if one.get("paper") is None else f"{one['paper']:.3f}" for one in both)
        assert f"| `{model}` | {ours} | {paper} |" in README.split("\n")
        assert both[0]["rounds"] == 3  # as the summary says
    claims = README.split(f"| claim of the paper | {HEADINGS[task]} | |\n")[1].split("\n\n")[0].split("\n")[1:]
    said = dict(line.strip("| ").split(" | ")[:2] for line in claims)
    judged = {one["name"]: one["judgement"] for section in found.values() for one in section["claims"]}
    assert {name: judgement.removesuffix(" |") for name, judgement in said.items()} == judged


def test_the_words_of_the_summary_have_the_numbers_of_the_cells() -> None:
    """The numbers in its sentences that come from cells and are not written by docs/figures.py."""
    found = sections("qmnist")
    lead = {(t["row"], t["metric"]): t for name in found for t in found[name]["paired_tests"]}
    added = {model: lead[f"{model} +attention", "i_auroc"]["difference"] for model in ("cap_vema", "cap_dba_l1")}
    assert f"adds {added['cap_vema']:.3f} (VEMA) and {added['cap_dba_l1']:.3f} (DBA-L1) i-AUROC" in WORDS
    significant = {row for (row, metric), t in lead.items() if "+" in row and metric == "auroc" and t["p_holm"] < 0.05}
    assert significant == {"cap_vema +multi_head"}
    order = found["classification"]["order"][0]
    assert {one for some in order["ours"][:4] for one in some} == {one for some in order["paper"][:4] for one in some}
    numbers = [line for name in found for claim in found[name]["claims"] for line in claim["numbers"]]
    for what in ("AUROC of cap_dba_l1 − baseline", "i-AP of cap_vema − baseline", "gap of cap_vema to baseline in i-A"):
        [line] = [one for one in dict.fromkeys(numbers) if one.startswith(what)]
        value, p, by_holm = re.search(r": (\S+) ± .*(p = [\d.]+), by Holm ([\d.]+)", line).groups()  # type: ignore[union-attr]
        assert f"({value}, {p})" in WORDS
        if what.startswith("AUROC"):
            assert f"which is {by_holm} after Holm's correction for six tests" in WORDS
    pma = [aurocs_by_round("qmnist", "pma", number) for number in range(3)]
    assert f"its AUROC is {pma[0]:.3f}, {pma[1]:.3f} and {pma[2]:.3f} in the three rounds" in WORDS
    cells = [name.split("/") for name in read_packed(RESULTS / "cpu" / "claims")]
    aurocs = [aurocs_by_round("claims", model, int(name.removeprefix("round-"))) for model, name in cells]
    assert f"AUROC is {min(aurocs):.3f} to {max(aurocs):.3f} over models and rounds" in WORDS


def test_the_words_about_witnesses_scored_alike_have_the_numbers_of_the_cells() -> None:
    found = {task: sections(task)["key_instance"] for task in ("qmnist", "claims")}
    figures = {
        (task, one["model"], one["metric"]): one
        for task, section in found.items()
        for one in section["scored_alike"]["figures"]
        if one["rounds"]
    }
    models = dict.fromkeys(model for task, model, _ in figures if task == "qmnist")
    assert list(models) == ["baseline", "gabmil", "pma", "cap_vema", "cap_dba_l1", "cap_dba_l2"]
    for model in models:
        row = [figures["qmnist", model, metric] for metric in ("i_auroc_one_hot", "i_ap_one_hot", "i_top1")]
        assert (
            f"| `{model}` | " + " | ".join(f"{one['ours']:.3f} ± {one['standard_error']:.3f}" for one in row) in README
        )
    top = {(task, model): one["ours"] for (task, model, metric), one in figures.items() if metric == "i_top1"}
    qmnist, claims = ([top[task, model] for model in models if model[:3] == "cap"] for task in ("qmnist", "claims"))
    baseline = top["qmnist", "baseline"]
    assert f"in {baseline:.3f} of the bags, against {min(qmnist):.3f} to {max(qmnist):.3f} for CAP" in WORDS
    words = f"a witness in {min(claims):.3f} to {max(claims):.3f} of the bags, that of the baseline in"
    assert f"{words} {top['claims', 'baseline']:.3f}, and a random one in" in WORDS
    own = figures["claims", "baseline", "i_auroc_by_score"]["ours"]
    assert f"the baseline is at chance, too (i-AUROC {own:.3f})" in WORDS
    i_auroc = {one["model"]: one["ours"] for one in found["claims"]["figures"] if one["metric"] == "i_auroc"}
    of_cap = [i_auroc[model] for model in models if model[:3] == "cap"]
    assert (
        f"(i-AUROC {i_auroc['nearest']:.3f}, i-top1 {top['claims', 'nearest']:.3f}; CAP {min(of_cap):.3f} to "
        f"{max(of_cap):.3f}, and {min(claims):.3f} to {max(claims):.3f})"
    ) in WORDS
    leads = [
        one["difference"]
        for one in found["qmnist"]["paired_tests"]
        if one["metric"] == "i_auroc" and one["row"].startswith("cap")
    ]
    assert f"(i-AUROC {min(leads):+.3f} to {max(leads):+.3f})" in WORDS
    alike = [one for one in found["qmnist"]["scored_alike"]["paired_tests"] if one["row"].startswith("cap")]
    assert len(alike) == 9
    assert all(one["difference"] < 0 and one["p_holm"] > 0.05 for one in alike)
    page = (RESULTS / "qmnist-key_instance.md").read_text("utf-8")
    by_chance = re.search(r"i-AP ([\d.]+) and i-top1 ([\d.]+)\. ", page)
    assert by_chance is not None
    assert f"an i-top1 of {by_chance[2]} and, with all instances ranked, an i-AP of {by_chance[1]}" in WORDS
    steps = sections("qmnist")["ablation"]["scored_alike"]["paired_tests"]
    added = {one["row"].split()[0]: one["difference"] for one in steps if "+attention" in one["row"]
             and one["metric"] == "i_top1"}  # fmt: skip
    assert f"i-top1 changes by {added['cap_vema']:+.3f} (VEMA) and {added['cap_dba_l1']:+.3f} (DBA-L1)" in WORDS


@pytest.mark.parametrize("task", ["signature", "fever-dev"])
def test_the_tables_of_witnesses_have_the_figures_of_the_cells(task: str) -> None:
    figures = sections(task)["key_instance"]["scored_alike"]["figures"]
    by_name = {(one["model"], one["metric"]): one for one in figures if one["rounds"]}
    for model in dict.fromkeys(model for model, _ in by_name):
        row = [by_name[model, metric] for metric in ("i_auroc_by_score", "i_auroc_one_hot", "i_top1")]
        line = f"| `{model}` | " + " | ".join(f"{one['ours']:.3f} ± {one['standard_error']:.3f}" for one in row) + " |"
        assert line in README.split("\n")
        assert row[0]["rounds"] == 3


def test_the_words_about_fevers_development_set_have_the_numbers_of_the_cells() -> None:
    found = sections("fever-dev")
    tables = ("classification", "key_instance")
    ours = {(o["model"], o["metric"]): o["ours"] for name in tables for o in found[name]["figures"]}
    ours |= {(o["model"], o["metric"]): o["ours"] for o in found["key_instance"]["scored_alike"]["figures"]}
    cap = ("cap_vema", "cap_dba_l1", "cap_dba_l2")

    def span(metric: str, less: str | None = None) -> tuple[float, float]:
        values = [ours[model, metric] - (0.0 if less is None else ours[less, metric]) for model in cap]
        return min(values), max(values)

    for words, metric, against in (
        ("{:.3f} to {:.3f} over the baseline", "auroc", "baseline"),
        ("{:.3f} to {:.3f} over `nearest`", "auroc", "nearest"),
        ("| i-AUROC {:+.3f} to {:+.3f} |", "i_auroc", "baseline"),
        ("by own score | holds | {:+.3f} to {:+.3f} |", "i_auroc_by_score", "baseline"),
        ("| i-top1 {:+.3f} to {:+.3f} |", "i_top1", "baseline"),
    ):
        assert words.format(*span(metric, against)) in WORDS
    baseline = [ours["baseline", metric] for metric in ("i_top1", "i_auroc_by_score")]
    nearest = [ours["nearest", metric] for metric in ("i_auroc", "i_top1")]
    assert f"witness in {baseline[0]:.3f} of the bags, and even ranked by its own similarity its" in WORDS
    assert f"its i-AUROC is {baseline[1]:.3f}" in WORDS
    assert "i-AUROC {:.3f} to {:.3f} against {:.3f}".format(*span("i_auroc"), nearest[0]) in WORDS
    assert "a witness in {:.3f} to {:.3f} of the bags against {:.3f}".format(*span("i_top1"), nearest[1]) in WORDS


def test_the_untrained_cosine_is_ahead_on_signatures_in_every_round() -> None:
    models = {one["model"] for one in sections("signature")["classification"]["figures"] if one["rounds"]}
    for number in range(3):
        aurocs = {model: aurocs_by_round("signature", model, number) for model in models}
        assert max(aurocs, key=lambda model: aurocs[model]) == "nearest"
    assert "`nearest` has the highest AUROC of them in every round" in WORDS


def aurocs_by_round(task: str, model: str, number: int) -> float:
    files = read_packed(RESULTS / "cpu" / task)[f"{model}/round-{number}"]
    return float(json.loads(files["result.json"])["metrics"]["test"]["classification"]["auroc"])


def test_what_is_computed_and_what_is_not_is_said() -> None:
    rows = [line for line in README.split("\n") if re.match(r"\| `[\w-]+` \| `\w+` \|", line)]
    for row, one in zip(rows, json.loads(run("--list", "--json")), strict=True):
        done = f"{one['done']} of {one['cells']}"
        assert row.startswith(f"| `{one['task']}` | `{one['experiment']}` | {one['paper']} | {done} |")
        reason = row.split(" | ")[4].rstrip("| ")
        assert bool(reason) == (one["done"] < one["cells"]), row


def test_every_record_has_its_commit_or_says_why_not_and_the_hashes_of_its_files() -> None:
    for path in sorted(RESULTS.glob("*/*.jsonl")):
        for name, files in read_packed(path.with_suffix("")).items():
            document = json.loads(files["result.json"])
            code = document["code"]
            assert code["commit"] or code["why"].startswith("Not recorded: "), name
            others = {one: hashlib.sha256(content).hexdigest() for one, content in files.items()}
            assert document["sha256"] == {one: others[one] for one in others if one != "result.json"}, name


def test_the_page_of_the_preset_best_has_the_note_of_its_records() -> None:
    page = " ".join((RESULTS / "best.md").read_text("utf-8").replace("\n> ", " ").split())
    runs = {name: json.loads(files["run.json"]) for name, files in read_packed(RESULTS / "best").items()}
    assert {f"{kind}round-{number}" for kind in ("", "first-") for number in range(3)} <= runs.keys()
    for name, run in runs.items():
        if not name.startswith("first-"):
            assert len(run["code"]["commit"]) == 40
            continue
        assert (run["code"]["commit"], len(run["notes"])) == (None, 1)
        assert run["notes"][0] in page
    assert "The commit of the code was not recorded." in page


def test_the_table_of_the_preset_best_is_that_of_its_answers() -> None:
    figures = []
    for number in range(3):
        files = read_packed(RESULTS / "best")[f"round-{number}"]
        metrics = evaluate(Predictions.load(RESULTS / "best.jsonl", files["predictions.parquet"])).metrics
        figures.append([metrics[name] for name in ("auroc", "accuracy", "i_auroc", "i_ap")])
        assert f"| {number} | " + " | ".join(f"{value:.3f}" for value in figures[-1]) in README
    means = [f"{sum(column) / 3:.3f}" for column in zip(*figures, strict=True)]
    assert f"| mean | **{means[0]}** | {means[1]} | **{means[2]}** | **{means[3]}** |" in README


def test_the_card_of_the_shipped_verifier_says_what_its_operating_point_does_on_test() -> None:
    folder = shipped_folder("miv/digits")
    assert folder is not None
    answers = Predictions.load(
        RESULTS / "best.jsonl", read_packed(RESULTS / "best")["first-round-1"]["predictions.parquet"]
    )
    assert answers.attention is not None
    assert answers.witness is not None
    point = OperatingPoint.load(folder)
    probability = point.probability(answers.logit)
    yes, positive = point.verdict(probability), answers.label == 1
    chosen = point.witnesses(probability, answers.attention, answers.ptr)
    sizes = csr.bag_sums(chosen, answers.ptr)[positive & yes]
    figures = [
        f"{(yes != positive).mean():.4f}",
        f"{yes[~positive].mean():.3f}",
        f"{(~yes[positive]).mean():.3f}",
        f"{chosen[answers.witness & csr.to_rows(positive, answers.ptr)].mean():.3f}",
        f"{sizes.mean():.1f}",
    ]
    assert f"| {' | '.join(figures)} |" in (folder / "README.md").read_text("utf-8")


def kept_audit(data: str) -> AuditReport:
    document = json.loads((RESULTS / f"audit-{data}.json").read_text(encoding="utf-8"))
    return AuditReport(document["about"], document["models"])


@pytest.mark.parametrize("data", ["qmnist", "twins"])
def test_the_page_of_an_audit_is_made_of_its_figures(data: str) -> None:
    assert (RESULTS / f"audit-{data}.md").read_text(encoding="utf-8") == kept_audit(data).markdown()


def test_the_summary_of_the_audits_has_the_tables_of_their_figures() -> None:
    page = (RESULTS / "audit.md").read_text(encoding="utf-8")
    for data, title in (("qmnist", "In short"), ("twins", "In short"), ("twins", "Unit tests of the pooling")):
        rows = next(rows for name, _, rows in tables(kept_audit(data).models) if name == title)
        assert markdown_table(rows) in page, f"{title} of {data}"
