"""What the fuzzer damages: good files of every kind that the package reads, and how each is read."""

import contextlib
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from benchmarks.fuzz_mutations import (
    Mutation,
    damage_bytes,
    damage_checkpoint,
    damage_csv,
    damage_json,
    damage_json_lines,
    damage_parquet,
    damage_safetensors,
)
from benchmarks.fuzz_specimens import resume_run

from miv import Verifier
from miv.cli.app import app
from miv.data import load_splits
from miv.data.sources import FromTable, Shares
from miv.evaluation import Predictions
from miv.evaluation.baselines import Baselines
from miv.files.images import read_image
from miv.runtime import SilentProgress
from miv.training.checkpoint import StageState, read_checkpoint
from miv.training.config import read_settings

Open = Callable[[Path], object]


@dataclass(frozen=True)
class Target:
    """A file to damage.

    Args:
        folder: folder of good files, below that of all specimens.
        file: the file in it to damage.
        open: reads the folder; may raise nothing but ``MIVError``.
        mutations: ways to damage the file, besides damage to its bytes.
        weight: how many cases it gets beside the others.
        rehash: whether the hashes of a manifest are made to fit the damage, as an attacker would.
    """

    folder: str
    file: str
    open: Open
    mutations: tuple[Mutation, ...] = ()
    weight: int = 4
    rehash: bool = False

    @property
    def name(self) -> str:
        """The target as results show it."""
        return f"{self.folder}/{self.file}{' rehashed' if self.rehash else ''} {self.open.__name__}"

    def damaged(self, folder: Path, rng: random.Random) -> None:
        """Damage the file in a copy of the good files."""
        path = folder / self.file
        content = rng.choice((damage_bytes, *self.mutations, *self.mutations))(path.read_bytes(), rng)
        path.write_bytes(content)
        manifest = path.parent / "manifest.json"
        if self.rehash:
            document = json.loads(manifest.read_text())
            document["files"][path.name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
            manifest.write_text(json.dumps(document))


def load_verifier(folder: Path) -> None:
    """Load a verifier and use it."""
    verifier = Verifier.from_pretrained(folder)
    if verifier.backbone.kind == "features":
        verifier.verify(np.zeros(6, np.float32), np.ones((3, 6), np.float32))


def load_sets(folder: Path) -> None:
    """Open all sets of a folder and check every value."""
    for exemplars in load_splits(folder, verify=True).values():
        exemplars.fingerprint  # noqa: B018 - reads every value


def open_set_quickly(folder: Path) -> None:
    """Open a set as training does, without the hash of its pool."""
    for exemplars in load_splits(folder).values():
        exemplars.subset([0]).compact()


def command(*words: str) -> Open:
    """Run a command of ``miv`` on the folder."""

    def run(folder: Path) -> None:
        filled = [word.format(folder=folder) for word in words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app(filled, standalone_mode=False)

    run.__name__ = " ".join(words[:2])
    return run


def read_table(name: str, instances: str | None = None) -> Open:
    """Build sets from a table, as ``miv data from-table`` does."""

    def read(folder: Path) -> None:
        second = None if instances is None else folder / instances
        FromTable(folder / name, instances=second, shares=Shares(0, 0)).build(SilentProgress())

    return read


def read_picture(name: str) -> Open:
    """Read the size and the pixels of an image."""

    def read(folder: Path) -> None:
        read_image(folder / name, colour=True)

    return read


def read_stopped(folder: Path) -> None:
    """Read where a stage stopped."""
    state = StageState()
    read_checkpoint(next(folder.rglob("last.ckpt")), state)
    state.is_over(3, 2)


def all_targets() -> list[Target]:
    """Every target; ``weight`` says how often it is drawn."""
    json_only, last = (damage_json,), "one/checkpoints/frozen/last.ckpt"
    runs_list, compare = command("runs", "list", "{folder}"), command("runs", "compare", "{folder}/one", "{folder}/one")
    settings = lambda folder: read_settings(folder / "one" / "config.json")  # noqa: E731
    settings.__name__ = "read_settings"
    reference = lambda folder: Baselines.load(folder / "one" / "reference.json").document()  # noqa: E731
    reference.__name__ = "Baselines.load"
    predictions = lambda folder: Predictions.load(folder / "one/predictions/test.parquet")  # noqa: E731
    predictions.__name__ = "Predictions.load"
    return [
        Target("verifier", "config.json", load_verifier, json_only, 8),
        Target("verifier", "model.safetensors", load_verifier, (damage_safetensors,), 6),
        Target("verifier", "operating_point.json", load_verifier, json_only, 6),
        Target("images_verifier", "config.json", load_verifier, json_only, 4),
        Target("runs", "one/run.json", runs_list, json_only, 4),
        Target("runs", "one/run.json", compare, json_only, 2),
        Target("runs", "one/config.json", compare, json_only, 2),
        Target("runs", "one/config.json", settings, json_only, 4),
        Target("runs", "one/evaluation.json", runs_list, json_only, 4),
        Target("runs", "one/reference.json", reference, json_only, 4),
        Target("runs", "one/predictions/test.parquet", predictions, (damage_parquet,), 4),
        Target("stopped", last, read_stopped, (damage_checkpoint,), 6),
        Target("stopped", last, resume_run, (damage_checkpoint,), 1),
        Target("stopped", "one/run.json", resume_run, json_only, 1),
        Target("sets", "train/manifest.json", load_sets, json_only, 6),
        Target("sets", "train/pool.npy", load_sets, (), 1),
        Target("sets", "train/pool.npy", load_sets, (), 4, rehash=True),
        Target("sets", "train/exemplars.parquet", open_set_quickly, (damage_parquet,), 4, rehash=True),
        Target("sets", "train/pool.parquet", open_set_quickly, (damage_parquet,), 2, rehash=True),
        Target("texts", "train/manifest.json", load_sets, json_only, 4),
        Target("texts", "train/pool.parquet", load_sets, (damage_parquet,), 3, rehash=True),
        Target("tables", "a.csv", read_table("a.csv"), (damage_csv,), 8),
        Target("tables", "a.jsonl", read_table("a.jsonl"), (damage_json_lines,), 8),
        Target("tables", "a.parquet", read_table("a.parquet"), (damage_parquet,), 6),
        Target("tables", "instances.jsonl", read_table("by_id.jsonl", "instances.jsonl"), (damage_json_lines,), 4),
        Target("tables", "by_id.jsonl", read_table("by_id.jsonl", "instances.jsonl"), (damage_json_lines,), 4),
        *(Target("pictures", name, read_picture(name), (), 3) for name in ("a.png", "a.jpg", "deep.png")),
        *(
            Target("pictures", f"a.{name}", read_picture(f"a.{name}"), (), 1)
            for name in ("bmp", "gif", "tif", "webp", "ppm")
        ),
    ]
