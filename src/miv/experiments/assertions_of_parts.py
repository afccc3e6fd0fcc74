"""The paper's claims about the parts of CAP (ablation, heads, LayerNorm) and about sizes, judged by our own figures."""

from dataclasses import replace

from miv.evaluation.evaluation import TITLES
from miv.experiments.comparison import CellEvidence
from miv.experiments.contrasts import Contrast
from miv.experiments.grids import CAP, EXPERIMENTS, FOUR, LADDER, SIZES, UNTRAINED, Row, Setup
from miv.experiments.judging import ABOVE, MARGIN, WITHIN, Assertion, judge
from miv.experiments.paired import estimate
from miv.experiments.scorings import PAPERS, Scoring

_STEP_BEFORE = dict(zip(LADDER, ["baseline", *LADDER], strict=False))
_NO_WITNESSES = "msa"  # of the models of the size study the one without attention


def attention_finds_witnesses(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """The attention function adds more to finding witnesses than every other part of CAP."""
    contrasts: list[Contrast] = []
    for model, ladder in _ladders(evidence).items():
        for metric in scoring.metrics:
            for step in list(LADDER)[1:]:
                terms = [*_added(ladder, "+attention", metric, 1), *_added(ladder, step, metric, -1)]
                contrasts.append((f"{model}: {TITLES[metric]} that attention adds minus what {step} adds", terms))
    statement = (
        'The attention functions "contribute substantially more to key instance detection performance than the other '
        f'components". Judged by {scoring.words}.'
    )
    claim = judge(scoring.of("attention function finds the witnesses"), statement, evidence, contrasts, ABOVE)
    return replace(claim, numbers=_steps(evidence, scoring.metrics) + claim.numbers)


def attention_helps_to_classify(evidence: CellEvidence) -> Assertion:
    """The attention function and co-excitation add more to classification than the other two parts."""
    contrasts: list[Contrast] = []
    for model, ladder in _ladders(evidence).items():
        signs = {"+attention": 1, "+co_excitation": 1, "+multi_head": -1, "+pre_layernorm": -1}
        terms = [term for step, sign in signs.items() for term in _added(ladder, step, "auroc", sign)]
        contrasts.append((f"{model}: AUROC that attention and co-excitation add minus what the others add", terms))
    statement = (
        'The attention functions, "in conjunction with co-excitation, ... also contribute the most to classification '
        'enhancement". Judged by AUROC.'
    )
    name = "attention and co-excitation help most to classify"
    claim = judge(name, statement, evidence, contrasts, ABOVE)
    return replace(claim, numbers=_steps(evidence, ("auroc", "accuracy")) + claim.numbers)


def heads_matter_little(evidence: CellEvidence) -> Assertion:
    """Results with and without multi-head projections are about the same."""
    variants = "the multi-head and non-headed versions"
    return _little_difference(evidence, "headed", "multi-head projections matter little", variants)


def layernorm_matters_little(evidence: CellEvidence) -> Assertion:
    """Results with LayerNorm before and after the aggregation are about the same."""
    variants = "pre- and post-aggregation LayerNorm"
    return _little_difference(evidence, "layernorm", "the place of the LayerNorm matters little", variants)


def ahead_at_every_size(evidence: CellEvidence, scoring: Scoring = PAPERS) -> Assertion:
    """CAP is better than all other models for every train size and mean bag size, on all criteria."""
    setups = _size_setups(evidence)
    contrasts: list[Contrast] = []
    for (model, variant), setup in setups.items():
        for other in _others(setups) if model in CAP else ():
            for metric in ("auroc", "accuracy", *scoring.metrics):
                if metric not in scoring.metrics or other != _NO_WITNESSES:
                    terms = [(1, setup, metric), (-1, setups[other, variant], metric)]
                    size = variant.replace("_", " ")
                    contrasts.append((f"{TITLES[metric]} of {model} − {other}, {size}", terms))
    statement = (
        'CAP "significantly outperform[s] the other models by substantial margins, according to all criteria", for '
        f"small and large train sets and bags. Judged by AUROC, accuracy, and {scoring.words}."
    )
    return judge(scoring.of("CAP is ahead at every size"), statement, evidence, contrasts, ABOVE)


def less_sensitive_to_bag_size(evidence: CellEvidence) -> Assertion:
    """From bags of 10 to bags of 20 and of 50, CAP loses less than all other models."""
    setups = _size_setups(evidence)
    count = min(counts[-1] for counts in SIZES.values())  # the largest train size that all bag sizes have
    small, *larger = (f"bag_{bag}_exemplars_{count}" for bag in SIZES)
    contrasts: list[Contrast] = []
    for large in larger:
        for model in dict.fromkeys(model for model, _ in setups if model in CAP):
            for other in _others(setups):
                lost_by_other = [(1.0, setups[other, small], "auroc"), (-1.0, setups[other, large], "auroc")]
                lost_by_cap = [(-1.0, setups[model, small], "auroc"), (1.0, setups[model, large], "auroc")]
                bags = f"from bags of 10 to {large.split('_')[1]}"
                what = f"AUROC that {other} loses {bags} minus what {model} loses"
                contrasts.append((what, [*lost_by_other, *lost_by_cap]))
    statement = 'CAP "tends to be less sensitive to increases in bag size" than the other models. Judged by AUROC.'
    return judge("CAP is less sensitive to bag size", statement, evidence, contrasts, ABOVE)


def _little_difference(evidence: CellEvidence, experiment: str, name: str, variants: str) -> Assertion:
    rows = _of_the_paper(evidence, experiment)
    contrasts: list[Contrast] = []
    for model in dict.fromkeys(row.model for row in rows):
        plain, other = [row for row in rows if row.model == model][:2]
        for metric in FOUR:
            what = f"{TITLES[metric]} of {model}, {plain.variant} − {other.variant}"
            contrasts.append((what, [(1, plain.setup, metric), (-1, other.setup, metric)]))
    statement = (
        f'The differences between {variants} are "insignificant or marginally significant". Judged by AUROC, accuracy, '
        f"i-AUROC and i-AP, as a test of equivalence: every difference is smaller than {MARGIN}."
    )
    return judge(name, statement, evidence, contrasts, WITHIN)


def _ladders(evidence: CellEvidence) -> dict[str, dict[str, Setup]]:
    """By model and step."""
    found: dict[str, dict[str, Setup]] = {}
    for row in _of_the_paper(evidence, "ablation"):
        found.setdefault(row.model, {})[row.variant] = row.setup
    return found


def _added(ladder: dict[str, Setup], step: str, metric: str, sign: float) -> list[tuple[float, Setup, str]]:
    """What a step adds to a metric."""
    return [(sign, ladder[step], metric), (-sign, ladder[_STEP_BEFORE[step]], metric)]


def _steps(evidence: CellEvidence, metrics: tuple[str, ...]) -> list[str]:
    """What each step adds, one line per model and metric."""
    lines = []
    for model, ladder in _ladders(evidence).items():
        for metric in metrics:
            parts = []
            for step in LADDER:
                terms = _added(ladder, step, metric, 1)
                found = estimate([(weight, evidence.of(setup), name) for weight, setup, name in terms])
                parts.append(f"{step} {'–' if found is None else f'{found.value:+.3f}'}")
            lines.append(f"{model}, {TITLES[metric]}: {', '.join(parts)}")
    return lines


def _size_setups(evidence: CellEvidence) -> dict[tuple[str, str], Setup]:
    """By model and variant."""
    return {(row.model, row.variant): row.setup for row in _of_the_paper(evidence, "size_study")}


def _of_the_paper(evidence: CellEvidence, experiment: str) -> list[Row]:
    """The rows without the untrained one, of which the paper says nothing."""
    return [row for row in EXPERIMENTS[evidence.task][experiment].rows if row.model != UNTRAINED]


def _others(setups: dict[tuple[str, str], Setup]) -> list[str]:
    return list(dict.fromkeys(model for model, _ in setups if model not in CAP))
