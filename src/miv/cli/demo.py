"""The demo: synthetic handwriting, the verifier that ships with the package, two trained on the spot, and a report."""

from collections.abc import Iterator
from pathlib import Path

from miv.data import ExemplarSet
from miv.data.sheet import write_contact_sheet
from miv.evaluation import evaluate, open_runs, write_report
from miv.evaluation.predicting import predict
from miv.evaluation.runs import summarise
from miv.runtime import Progress, table_of
from miv.tasks import build_once, built_folder
from miv.training.auto import choose
from miv.training.config import TrainingConfig
from miv.training.run import Machine, run_training
from miv.verifier.network import Verifier

READY = "miv/digits"
POOLINGS = ("baseline", "cap_dba_l2")
TASK = {"writers": 170, "held_out_writers": 40, "copies": 4, "difficulty": 0.3}


def settings(sets: dict[str, ExemplarSet], pooling: str) -> TrainingConfig:
    """The settings of the demo: those that ``auto`` chooses for these exemplars, not tuned on the test split."""
    return choose(sets, {"pooling": pooling}).config


def run_demo(out: Path, progress: Progress) -> Iterator[str]:
    """Run the demo, and yield each piece of text as soon as it is ready."""
    sets = build_once("digits-twin", TASK, out / "cache" / "sets", progress)
    sheet = out / "exemplars.html"
    write_contact_sheet(sets, sheet, exemplars=24)
    yield _before_training(sets["test"], progress)
    runs = {pooling: out / "runs" / pooling for pooling in POOLINGS}
    for pooling, folder in runs.items():
        machine = Machine(out / "cache" / "features")
        run_training(sets, settings(sets, pooling), folder, machine, data="digits-twin", resume=True, progress=progress)
    report = out / "report.html"
    # The model of interest first, then the one to compare it with.
    built = built_folder("digits-twin", TASK, out / "cache" / "sets")
    source = open_runs([runs[pooling] for pooling in reversed(POOLINGS)], data=built)
    write_report(source, report, title="Is one of these digits by the writer of the query?")
    shown = ("pooling", "auroc", "accuracy", "f1", "i_auroc", "i_ap", "seconds")
    rows = [summarise(folder, "test") for folder in runs.values()]
    yield (
        "Two models trained just now, tested on writers they have not seen:\n\n"
        f"{table_of([{name: row[name] for name in shown} for row in rows])}\n\n"
        "auroc measures the verdicts; i_auroc and i_ap measure how well attention finds the witnesses.\n"
        f"Exemplars: {sheet}\nRuns, metrics and verifiers: {out / 'runs'}\n"
        f"Report (open in a browser): {report}"
    )


def _before_training(exemplars: ExemplarSet, progress: Progress) -> str:
    metrics = evaluate(predict(Verifier.from_pretrained(READY), exemplars, None, progress)).metrics
    return (
        f"Is one of the digits in the bag by the writer of the query? {READY} ships with the package, "
        f"was trained on real digits\nand has never seen handwriting like this. On {len(exemplars)} bags: AUROC "
        f"{metrics['auroc']:.3f}; its attention finds the witnesses with an i-AUROC of {metrics['i_auroc']:.3f}."
    )
