"""``miv demo``: train and compare two verifiers in a few minutes, without downloads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from miv.cli.app import app

if TYPE_CHECKING:
    from miv.data import ExemplarSet
    from miv.training.config import TrainingConfig

POOLINGS = ("cap_dba_l2", "baseline")  # the model of interest first, then the one to compare it with
TASK = {"writers": 170, "held_out_writers": 40, "copies": 4, "difficulty": 0.3}


def settings(sets: "dict[str, ExemplarSet]", pooling: str) -> "TrainingConfig":
    """The settings of the demo: those that ``auto`` chooses for these exemplars, not tuned on the test split."""
    from miv.training.auto import choose

    return choose(sets, {"pooling": pooling}).config


@app.command("demo")
def demo(out: Annotated[Path, Option("--out", "-o", help="Folder to write to.")] = Path("demo")) -> None:
    """Invent handwriting, verify it with miv/digits, train two more verifiers, and show what they see.

    Takes under three minutes on two cores. Steps already finished in the folder are skipped.
    """
    from miv.evaluation import evaluate, open_runs, write_report
    from miv.evaluation.predicting import predict
    from miv.evaluation.runs import summarise
    from miv.runtime import RichProgress, keep_memory, table_of
    from miv.tasks import build_once, built_folder
    from miv.training.run import Machine, run_training
    from miv.verifier.network import Verifier

    keep_memory()
    progress = RichProgress()
    sets = build_once("digits-twin", TASK, out / "cache" / "sets", progress)
    metrics = evaluate(predict(Verifier.from_pretrained("miv/digits"), sets["test"], None, progress)).metrics
    print(
        "Is one of the digits in the bag by the writer of the query? miv/digits ships with the package, was trained on "
        f"real digits\nand has never seen handwriting like this. On {len(sets['test'])} bags: AUROC "
        f"{metrics['auroc']:.3f}; its attention finds the witnesses with an i-AUROC of {metrics['i_auroc']:.3f}.\n",
        flush=True,
    )
    runs = [out / "runs" / pooling for pooling in POOLINGS]
    for pooling, folder in zip(POOLINGS, runs, strict=True):
        machine = Machine(out / "cache" / "features")
        run_training(sets, settings(sets, pooling), folder, machine, data="digits-twin", resume=True, progress=progress)
    source = open_runs(runs, data=built_folder("digits-twin", TASK, out / "cache" / "sets"))
    write_report(source, out / "report.html", title="Is one of these digits by the writer of the query?")
    shown = ("pooling", "auroc", "accuracy", "f1", "i_auroc", "i_ap", "seconds")
    rows = [summarise(folder, "test") for folder in runs]
    print(
        "Two models trained just now, tested on writers they have not seen:\n\n"
        f"{table_of([{name: row[name] for name in shown} for row in rows])}\n\n"
        "auroc measures the verdicts; i_auroc and i_ap measure how well attention finds the witnesses.\n"
        f"Runs, metrics and verifiers: {out / 'runs'}\n"
        f"Report (open in a browser): {out / 'report.html'}\n"
    )
