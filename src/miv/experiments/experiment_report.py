"""The outcome of an experiment as tables, sentences and claims, from which all outputs are written."""

from dataclasses import dataclass, field
from typing import Any

from miv.experiments.alike_tables import Alike, score_alike
from miv.experiments.assertions import judge_claims
from miv.experiments.comparison import CellEvidence, Comparison, PairedTest, paired_tests, verdicts
from miv.experiments.contrasts import near_chance
from miv.experiments.digits import digit_sentences, digit_table
from miv.experiments.grids import WITNESSES, Experiment
from miv.experiments.judging import Assertion
from miv.experiments.ranking import Ranking, rankings
from miv.experiments.report_documents import (
    claim_document,
    paired_document,
    ranking_document,
    verdict_document,
)
from miv.experiments.report_tables import cost_table, figure_table, paired_table, size_tables, verdict_table
from miv.experiments.text_tables import Table


@dataclass(frozen=True)
class Section:
    """An experiment and its outcome.

    Args:
        experiment: the experiment.
        evidence: the finished cells.
        remarks: what a reader must know about them.
        tables: the tables, in order.
        sentences: summaries, such as the order of the models.
        claims: the paper's claims, judged.
        found: the verdicts behind the tables.
        tests: the paired tests behind the tables.
        orders: the orders of the models behind the sentences.
        alike: the witnesses, with all models scored alike.
    """

    experiment: Experiment
    evidence: CellEvidence
    remarks: list[str]
    tables: list[Table]
    sentences: list[str]
    claims: list[Assertion]
    found: list[Comparison] = field(repr=False)
    tests: list[PairedTest] = field(repr=False)
    orders: list[Ranking] = field(repr=False)
    alike: Alike = field(repr=False)

    @property
    def title(self) -> str:
        return f"{self.experiment.title} ({self.experiment.source}), tier {self.evidence.tier_name}"

    @property
    def key(self) -> str:
        """The key of its pictures."""
        return f"{self.experiment.task}-{self.experiment.name}"

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "task": self.experiment.task,
            "experiment": self.experiment.name,
            "source": self.experiment.source,
            "tier": self.evidence.tier_name,
            "twin": self.evidence.tier.is_twin,
            "remarks": self.remarks,
            "figures": [verdict_document(verdict) for verdict in self.found],
            "paired_tests": [paired_document(test) for test in self.tests],
            "scored_alike": {
                "figures": [verdict_document(verdict) for verdict in self.alike.found],
                "paired_tests": [paired_document(test) for test in self.alike.tests],
            },
            "order": [ranking_document(one) for one in self.orders],
            "claims": [claim_document(claim) for claim in self.claims],
        }


def build_section(experiment: Experiment, evidence: CellEvidence) -> Section:
    """Build the report of an experiment from its finished cells."""
    found = verdicts(experiment, evidence)
    tests = paired_tests(experiment, evidence)
    orders = rankings(experiment, evidence)
    sentences = [str(one) for one in orders]
    tables = []
    if experiment.name == "size_study":
        tables += size_tables(found)
    else:
        tables.append(figure_table(experiment, evidence, found))
        if any(verdict.word for verdict in found):
            tables.append(verdict_table(experiment, found))
    if experiment.name == "per_digit":
        results = evidence.of(experiment.rows[0].setup)
        tables += digit_table(results, with_paper=evidence.may_compare_figures)
        sentences += digit_sentences(results) if evidence.may_compare_figures else []
    if tests and experiment.name != "size_study":
        tables.append(paired_table(experiment, evidence, tests))
    alike = score_alike(experiment, evidence)
    tables += alike.tables
    tables.append(cost_table(experiment, evidence))
    claims = judge_claims(experiment, evidence)
    remarks = evidence.tier.remarks(experiment.task) + _remarks(experiment, evidence)
    return Section(experiment, evidence, remarks, tables, sentences, claims, found, tests, orders, alike)


def _remarks(experiment: Experiment, evidence: CellEvidence) -> list[str]:
    """What is missing, which rounds the figures cover, and whether anything was learnt."""
    remarks = []
    setups = {row.setup.name: row.setup for row in experiment.rows}
    wanted = len(evidence.rounds) * len(setups)
    results = [result for setup in setups.values() for result in evidence.of(setup)]
    done, unknown = len(results), sum(result.commit is None for result in results)
    if unknown and evidence.may_judge:
        remarks.append(f"The commit of the code was not recorded for {unknown} of the {done} cells.")
    if done < wanted:
        missing = f"{done} of {wanted} cells are done"
        if experiment.is_stepwise:
            common = ", ".join(map(str, evidence.common_rounds(experiment.rows))) or "none"
            remarks.append(f"{missing}; the figures use the rounds that all computed rows share: {common}.")
        else:
            remarks.append(f"{missing}; the column 'rounds' says how many rounds a figure uses.")
    if evidence.may_judge:
        yardsticks = ("i_auroc" if metric in WITNESSES else "auroc" for metric in experiment.metrics)
        remarks += filter(None, (near_chance(evidence, setups, metric) for metric in dict.fromkeys(yardsticks)))
    return remarks
