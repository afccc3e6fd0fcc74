"""Good files of every kind that the package reads, for the fuzzer to damage."""

import contextlib
import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import miv
from miv import ExemplarSet, InstancePool, Verifier
from miv.errors import StoppedByUser
from miv.evaluation import calibrate
from miv.evaluation.predicting import predict
from miv.runtime import CTRL_C
from miv.training.config import TrainingConfig
from miv.training.run import run_training
from miv.training.stages import Machine, StageTraining

SETTINGS = TrainingConfig(backbone="features", batch_size=16, max_epochs=2, patience=2)


def tiny_sets() -> dict[str, ExemplarSet]:
    """Bags of three vectors, one of which is near the query if the label is 1."""
    return {split: _vectors(seed) for seed, split in enumerate(("train", "validation", "test"))}


def _vectors(seed: int) -> ExemplarSet:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(120, 6)).astype(np.float32)
    labels = np.arange(30) % 2
    values[90:] = values[:30] + np.float32(0.1)
    bags = [[30 + row, 60 + row, 90 + row if label else 89 - row] for row, label in enumerate(labels)]
    witnesses = [[False, False, bool(label)] for label in labels]
    pool = InstancePool("features", values, np.arange(120).astype(str))
    return ExemplarSet.from_lists(pool, list(range(30)), bags, labels.tolist(), witnesses)


def make_specimens(folder: Path) -> None:
    """Write the good files that cases start from."""
    _make_run(folder / "runs" / "one", folder / "stopped" / "one")
    shutil.copytree(folder / "runs" / "one" / "verifier", folder / "verifier")
    sets = tiny_sets()
    answers = predict(
        Verifier("nearest", channels=6).eval(), sets["validation"]
    )  # two epochs are no better than chance
    calibrate(answers).point.save(folder / "verifier")
    Verifier("cap_vema", "compact_cnn", pooling_options={"heads": 2}).save_pretrained(folder / "images_verifier")
    for split, exemplars in sets.items():
        exemplars.save(folder / "sets" / split, builder="fuzz", options={"a": 1}, seed=0)
    texts = InstancePool("text", np.array(["a", "b é", "c", "d"], dtype=object), np.array(["x", "y", "x", ""]))
    spoken = ExemplarSet.from_lists(texts, [0, 1], [[1, 2], [3]], [1, 0], None, ["g", "h"])
    spoken.save(folder / "texts" / "train", builder="fuzz", options={}, seed=None)
    _make_tables(folder / "tables")
    _make_images(folder / "pictures")


def _make_run(out: Path, stopped: Path) -> None:
    """Write a finished run, and one that stopped after its first epoch."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        miv.train(tiny_sets(), out=out, config=SETTINGS, cache=out.parents[1] / "cache", verbose=False)
    end_epoch = StageTraining.end_epoch

    def stop_after_epoch(*arguments: Any) -> None:
        end_epoch(*arguments)
        raise StoppedByUser("", CTRL_C)

    with mock.patch.object(StageTraining, "end_epoch", stop_after_epoch), contextlib.suppress(StoppedByUser):
        resume_run(stopped.parent)


def _make_tables(folder: Path) -> None:
    folder.mkdir()
    rows = [
        {"query": [float(n), 1.0], "bag": [[0.0, float(n)], [n + 1.0, 2.0]], "label": n % 2, "witnesses": [n % 2],
         "split": "train" if n < 6 else "test", "group": f"g{n % 3}", "query_id": n}
        for n in range(8)
    ]  # fmt: skip
    (folder / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "bag", "label", "witnesses", "split", "group", "query_id"])
        for n in range(8):
            writer.writerow([f"text {n}", f"one {n}|two, {n}", n % 2, "0" if n % 2 else "", "train", f"g{n}", n])
    ids = [{"id": f"i{n}", "vector": [float(n), 2.0], "class": f"c{n % 2}"} for n in range(6)]
    (folder / "instances.jsonl").write_text("\n".join(json.dumps(row) for row in ids))
    by_id = [{"query": f"i{n}", "bag": [f"i{n + 1}", f"i{n + 2}"], "label": n % 2} for n in range(4)]
    (folder / "by_id.jsonl").write_text("\n".join(json.dumps(row) for row in by_id))


def _make_images(folder: Path) -> None:
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("a.png", "a.bmp", "a.gif", "a.tif", "a.webp", "a.ppm"):
        Image.fromarray(pixels).save(folder / name)
    Image.fromarray(pixels).save(folder / "a.jpg", exif=exif)
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "deep.png")


def resume_run(folder: Path) -> None:
    """Resume a run that stopped after its first epoch."""
    run_training(tiny_sets(), SETTINGS, folder / "one", Machine(folder / "cache", quiet=True), resume=True)
