"""The demo: synthetic handwriting, the verifier that ships with the package, two trained on the spot, and a report."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr
from miv.data.sheet import write_contact_sheet
from miv.evaluation import Predictions, evaluate, open_runs, write_report
from miv.evaluation.predicting import predict
from miv.evaluation.runs import summarise
from miv.runtime import Progress, table_of
from miv.tasks import build_once, built_folder
from miv.training.auto import choose
from miv.training.config import TrainingConfig
from miv.training.run import Machine, train
from miv.verifier.network import Verifier

READY = "miv/digits"
POOLINGS = ("baseline", "cap_dba_l2")
TASK = {"writers": 170, "held_out_writers": 40, "copies": 4, "difficulty": 0.3}
SHADES = " ░▒▓█"
COLUMNS = 5  # pictures side by side


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
        train(sets, settings(sets, pooling), folder, machine, data="digits-twin", resume=True, progress=progress)
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
    answers = predict(Verifier.from_pretrained(READY), exemplars, None, progress)
    found = evaluate(answers).metrics
    return (
        f"Is one of the digits in the bag by the writer of the query? {READY} ships with the package, "
        f"was trained on real digits\nand has never seen handwriting like this. On {len(exemplars)} bags: "
        f"AUROC {found['auroc']:.3f}; its attention finds the witnesses with an i-AUROC of {found['i_auroc']:.3f}.\n\n"
        f"{show_exemplar(exemplars, answers)}"
    )


def show_exemplar(exemplars: ExemplarSet, answers: Predictions) -> str:
    """One exemplar as text: the query and its bag by decreasing attention, with the witnesses marked."""
    chosen = _telling_exemplar(answers)
    members = slice(int(answers.ptr[chosen]), int(answers.ptr[chosen + 1]))
    attention, witness = _seen(answers)
    attention, witness, bag = attention[members], witness[members], exemplars.bag(chosen)
    order = np.argsort(-attention, kind="stable")
    images = exemplars.pool.values
    captions = [f"{attention[place]:.0%}{' ◀ witness' if witness[place] else ''}" for place in order]
    pictures = [_picture(images[bag[place]]) for place in order]
    query = _beside([_picture(images[exemplars.query[chosen]])], ["query"])
    return (
        f"Exemplar {chosen} of test: probability {answers.probability[chosen]:.0%}, truly "
        f"{'yes' if answers.label[chosen] else 'no'}. The query:\n\n{query}\n\n"
        f"Its bag, with the attention on each digit:\n\n{_beside(pictures, captions)}"
    )


def _telling_exemplar(answers: Predictions) -> int:
    """A positive exemplar with a small bag, a high probability and most of the attention on its witnesses."""
    on_witnesses = csr.bag_sums(np.prod(_seen(answers), axis=0), answers.ptr)
    telling = (answers.label == 1) & (answers.bag_sizes <= 2 * COLUMNS) & (answers.bag_sizes >= COLUMNS)
    return int(np.argmax(np.where(telling, on_witnesses * answers.probability, -1)))


def _picture(image: NDArray[np.uint8]) -> list[str]:
    """An image ``(28, 28)`` as 14 lines of 14 × 2 letters, one letter per two pixels on top of each other."""
    pairs = image[: len(image) // 2 * 2].reshape(-1, 2, image.shape[1]).mean(axis=1)  # (H / 2, W)
    shade = np.minimum(pairs / 256 * len(SHADES) * 1.2, len(SHADES) - 1).astype(int)
    return ["".join(SHADES[one] for one in line) for line in shade]


def _beside(pictures: list[list[str]], captions: list[str]) -> str:
    lines = []
    for first in range(0, len(pictures), COLUMNS):
        row, words = pictures[first : first + COLUMNS], captions[first : first + COLUMNS]
        lines += ["│".join(parts).rstrip() for parts in zip(*row, strict=True)]
        lines += [" ".join(word.center(len(picture[0])) for word, picture in zip(words, row, strict=True)).rstrip()]
    return "\n".join(lines)


def _seen(answers: Predictions) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The attention of ``READY``, and the witnesses, which the twin knows."""
    return cast(NDArray[np.float64], answers.attention), cast(NDArray[np.bool_], answers.witness)
