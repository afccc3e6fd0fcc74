"""The tiers, each a compute budget that is the same for all models, and jobs: a cell in a tier.

``_REMARKS`` says how the tiers differ from the paper.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from miv.backbones import create_backbone
from miv.backbones.hf_files import MINILM
from miv.data import ExemplarSet, load_splits
from miv.data.splits import SPLITS
from miv.errors import MIVError, unknown_name
from miv.evaluation.baselines import candidates_for
from miv.poolings import POOLINGS
from miv.reproduction.grids import OF_PAPER, STANDS_IN, Cell, Setup
from miv.tasks import task_options
from miv.training.auto import CONTRAST_START, ONE_CYCLE, preset
from miv.training.config import TrainingConfig

# What the tier `cpu` changes in ONE_CYCLE. All its numbers are here.
_FROZEN: dict[str, Any] = {
    "full_stage": False,
    "batch_size": 64,
    "learning_rates": ((0, 1e-3),),
    "frozen_learning_rates": (),
    "max_epochs": 30,
    "patience": 10,
}
_FROZEN_TEXT = _FROZEN | {"backbone_options": {"pooling": "mean"}, "heads": 4, "batch_size": 48, "patience": 30}
CPU: dict[str, dict[str, Any]] = {
    "qmnist": CONTRAST_START
    | {
        "heads": 2,
        "batch_size": 64,
        "learning_rates": ((0, 3e-4),),
        "frozen_learning_rates": ((0, 2e-3),),
        "max_epochs": 1,
        "patience": 1,
        "frozen_max_epochs": 6,
        "frozen_patience": 6,
    },
    # A fixed descriptor: a network from random weights is worse on so few writers, and MobileNetV2 too wide for a CPU.
    "signature": _FROZEN | {"backbone": "hog", "heads": 6},
    "fever": _FROZEN_TEXT,
    "fever-dev": _FROZEN_TEXT | {"patience": 6},
    "claims": _FROZEN_TEXT,
}
CPU_TASK_OPTIONS: dict[str, dict[str, Any]] = {"signature": {"anchors_per_query": 2}}

# What the tier `frozen` changes in `cpu`: no stage trains the backbone, which is that of a verifier in the package.
BACKBONE_OF = {"qmnist": "miv/digits"}
FROZEN: dict[str, Any] = {
    "backbone_options": {**CONTRAST_START["backbone_options"], "shift": 1},
    "augmentation": "none",
    "contrast_epochs": 0,
    "full_stage": False,
    "patience": 6,
}

# What the tier `finetuned` changes in `cpu`: then comes the paper's second stage, for the last layers of the encoder.
FINE_TUNED: dict[str, dict[str, Any]] = {
    "fever-dev": {
        "full_stage": True,
        "frozen_learning_rates": CPU["fever-dev"]["learning_rates"],
        "frozen_max_epochs": CPU["fever-dev"]["max_epochs"],
        "frozen_patience": CPU["fever-dev"]["patience"],
        "learning_rates": ((0, 3e-4),),
        "backbone_learning_rate": 1e-4,
        "trainable_layers": 2,
        "max_epochs": 1,
        "patience": 1,
    }
}

# The data of the tier `smoke`, small enough for seconds, and the tasks that it stands for.
TWIN, OF_TWIN = "digits-twin", ("qmnist", "signature")
_TWIN_OPTIONS: dict[str, Any] = {"writers": 6, "held_out_writers": 6, "copies": 2}
# The tier of a set of your own, and how many train exemplars unlearn the random signs of the paper's start.
OWN, _ENOUGH = "own", 10_000
SMOKE: dict[str, Any] = {"max_epochs": 1, "frozen_max_epochs": 1, "batch_size": 64}


@dataclass(frozen=True)
class Tier:
    """A compute budget for cells, by its name for `--tier`."""

    name: str
    tasks: tuple[str, ...] = ()
    is_twin: bool = False  # runs on a synthetic twin, which says nothing about the paper
    is_frozen: bool = False  # trains only poolings, on the backbone of a verifier in the package
    is_fine_tuned: bool = False  # also trains the last layers of an encoder of texts

    def takes(self, task: str) -> bool:
        return task in self.tasks if self.name != OWN else task not in OF_PAPER

    def backbone_of(self, task: str) -> str | None:
        """The verifier in the package whose backbone every cell takes; ``None`` if cells have their own."""
        return BACKBONE_OF[task] if self.is_frozen else None

    def settings(self, cell: Cell, encoder: str = MINILM) -> TrainingConfig:
        """The training settings; ``encoder`` is the text encoder, unless the tier sets one."""
        pooling = cell.setup.pooling
        if self.name == OWN:
            settings = ONE_CYCLE.changed(
                {"pooling": pooling} | _FROZEN | _representation(sets_of_round(cell)["train"], encoder)
            )
        elif self.name == "paper":
            settings = preset(STANDS_IN.get(cell.task, cell.task), pooling)
        else:
            self.check(cell.task)
            changes = CPU[cell.task] | (SMOKE if self.is_twin else FROZEN if self.is_frozen else {})
            if self.is_fine_tuned:
                changes |= FINE_TUNED[cell.task]
            if self.is_twin and "contrast_epochs" in changes:
                changes["contrast_epochs"] = 1
            settings = ONE_CYCLE.changed({"pooling": pooling} | changes)
            if settings.backbone is None:
                settings = settings.changed({"backbone": f"hf:{encoder}"})
        if not POOLINGS[pooling].make.learns:
            settings = settings.changed({"full_stage": False})  # it stays untrained: so does its backbone
        # Rounds are independent draws: of the data by the task's round, of the weights by the seed.
        return settings.changed({"pooling_options": dict(cell.setup.pooling_options), "seed": cell.round})

    def data(self, cell: Cell) -> tuple[str, dict[str, Any]]:
        """The task that builds the data, and its options without the folder of the raw files."""
        if self.name == OWN:  # known by its content, wherever it is
            splits = {split: one.fingerprint for split, one in sets_of_round(cell).items()}
            return OWN, {"round": cell.round, "splits": splits}
        if self.is_twin:
            return TWIN, {**_TWIN_OPTIONS, "round": cell.round}
        cheaper = CPU_TASK_OPTIONS.get(cell.task, {}) if self.name == "cpu" else {}
        return cell.task, {**cell.setup.task_options, **cheaper, "round": cell.round}

    def check(self, task: str) -> None:
        if not self.takes(task):
            raise MIVError(f"The tier {self.name} has only {', '.join(self.tasks)}, not {task}. Use another --tier.")

    def remarks(self, task: str) -> list[str]:
        """What a reader of this tier's figures must know."""
        remarks = [_REMARKS[key] for key in ((self.name, task), (self.name, ""), ("", task)) if key in _REMARKS]
        if self.is_twin:
            remarks.insert(0, f"Figures of the synthetic twin {TWIN}: they say nothing about the paper.")
        return remarks


_TEXTS = "The sentence encoder is frozen (the first stage only); the paper also trains it."
_REMARKS: dict[tuple[str, str], str] = {
    ("cpu", "qmnist"): "A compact CNN from random weights and a contrast stage, trained once per round for all models, "
    "replace the paper's pretrained backbone; then come the paper's two stages, with fewer epochs.",
    ("cpu", "signature"): "Histograms of oriented gradients replace the paper's trained EfficientNet, and each query "
    "meets two anchors instead of all. With 6 writers for testing in each round, figures differ much between rounds.",
    ("cpu", "fever"): _TEXTS,
    ("cpu", "fever-dev"): _TEXTS,
    ("cpu", "claims"): _TEXTS,
    ("frozen", ""): "Only the poolings are trained, on the frozen features of miv/digits, which has seen no writer of "
    "test or validation. All rounds share this backbone.",
    ("finetuned", ""): "After the stage of the tier cpu, the last 2 layers of the encoder are trained for one epoch; "
    "the paper trains the whole encoder. Without a better validation accuracy, the first stage counts.",
    ("", "fever"): "FEVER's labels leak: the claim alone, without evidence, predicts much of them.",
    ("", "fever-dev"): "Only the claims of FEVER's development set, with distractors near the claim by TF-IDF; rounds "
    "differ only in their weights. Compare only the order of the models with the paper. The labels leak: a logistic "
    "regression on the words of the claim, without evidence, has an AUROC of 0.784 on test.",
    ("own", ""): "Your own set, with frozen features; below 10,000 train exemplars, models start as a cosine. Rounds "
    "differ in the weights alone, unless the folder has round-0, round-1 and so on, each with its own splits.",
    ("", "claims"): "Fool Me Twice stands in for FEVER, with other and far fewer claims. Compare only the order of the "
    "models with the paper.",
}


TIERS = {
    "paper": Tier("paper", tuple(CPU)),
    "cpu": Tier("cpu", tuple(CPU)),
    "frozen": Tier("frozen", tuple(BACKBONE_OF), is_frozen=True),
    "finetuned": Tier("finetuned", tuple(FINE_TUNED), is_fine_tuned=True),
    "smoke": Tier("smoke", OF_TWIN, is_twin=True),
    OWN: Tier(OWN),
}


def sets_of_round(cell: Cell) -> dict[str, ExemplarSet]:
    """The splits of a round of your own set: of its subfolder ``round-0``, ``round-1``… if there is one."""
    folder = Path(cell.task) / f"round-{cell.round}"
    return _splits_of(folder if folder.is_dir() else Path(cell.task))


@cache
def _splits_of(folder: Path) -> dict[str, ExemplarSet]:
    sets = load_splits(folder)
    if missing := [split for split in SPLITS if split not in sets]:
        raise MIVError(f"{folder} has no {', '.join(missing)}. An experiment needs train, validation and test.")
    return sets


@cache
def _representation(train: ExemplarSet, backbone: str | None) -> dict[str, Any]:
    """The backbone of your own set, by default one that needs no training, and 4 heads or what divides its channels."""
    if train.pool.kind == "text":
        backbone = f"hf:{backbone or MINILM}"
    elif backbone in (None, MINILM):
        backbone = next(iter(candidates_for(train)))
    features = train.pool.kind == "features"
    channels = train.pool.values.shape[1] if features else create_backbone(backbone).channels
    heads = next(count for count in (4, 3, 2, 1) if channels % count == 0)
    own = {"backbone": "features" if features else backbone, "heads": heads}
    return own if len(train) >= _ENOUGH else own | {"start": "similar", "recipes": ("nearest",)}


def find_tier(name: str) -> Tier:
    """The tier with this name."""
    if name not in TIERS:
        raise unknown_name("tier", name, TIERS)
    return TIERS[name]


# A job: its settings, its paths on disk, and the raw files that it needs.


@dataclass(frozen=True)
class JobFolders:
    """Where things are."""

    results: Path  # finished cells, small enough to keep with the code
    work: Path  # running trainings, with checkpoints and logs; safe to delete
    cache: Path  # features and built sets; safe to delete
    raw: Path | None = None  # the raw files of the task; None for its default folder


def default_options(task: str) -> dict[str, Any]:
    """The defaults of the options that determine what a task builds, without the folder of raw files."""
    options = [] if task == OWN else task_options(task)
    return {option.name: option.default for option in options if option.name not in ("raw", "download")}


@dataclass(frozen=True)
class Job:
    """A cell in a tier."""

    cell: Cell
    tier_name: str
    encoder: str = MINILM

    @property
    def tier(self) -> Tier:
        return find_tier(self.tier_name)

    @property
    def task_name(self) -> str:
        """The task, or the name of the folder of your own set."""
        return self.cell.task if self.tier_name != OWN else Path(self.cell.task).resolve().name

    @cached_property
    def settings(self) -> TrainingConfig:
        """The settings, with the encoder's short name, so that they are the same on every machine."""
        return self.tier.settings(self.cell, self.encoder)

    @cached_property
    def description(self) -> dict[str, Any]:
        """All settings and options with their values, defaults included, as JSON values."""
        task, options = self.tier.data(self.cell)
        description = {
            "task": self.task_name,
            "name": self.cell.setup.name,
            "round": self.cell.round,
            "tier": self.tier_name,
            "data": {"task": task, "options": {**default_options(task), **options}},
            "config": self.settings.document(),
        }
        if self.tier.is_frozen:
            description["backbone_of"] = self.tier.backbone_of(self.cell.task)
        return dict(json.loads(json.dumps(description)))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()

    def result_file(self, results: Path) -> Path:
        """The file with the finished cells of this tier and task."""
        return results / self.tier_name / f"{self.task_name}.jsonl"

    @property
    def result_name(self) -> str:
        """The name of the cell in that file."""
        return f"{self.cell.setup.name}/round-{self.cell.round}"

    def work_folder(self, work: Path) -> Path:
        """Folder of the training run; other settings have another folder."""
        folder = f"{self.cell.setup.name}-{self.digest[:8]}"
        return work / self.tier_name / self.task_name / folder / f"round-{self.cell.round}"

    def log(self, work: Path) -> Path:
        return self.work_folder(work).with_suffix(".log")

    def lock(self, work: Path) -> Path:
        return self.work_folder(work).with_suffix(".lock")

    def document(self) -> dict[str, Any]:
        return {**asdict(self.cell), "tier": self.tier_name, "encoder": self.encoder}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Job":
        cell = Cell(document["task"], Setup(**document["setup"]), document["round"])
        return cls(cell, document["tier"], document["encoder"])

    def __str__(self) -> str:
        return str(self.cell)


def raw_folder(job: Job, chosen: Path | None) -> Path | None:
    """The folder of the raw files of a job; ``None`` if it needs none."""
    if job.tier_name == OWN:
        return None
    options = {option.name: option.default for option in task_options(job.tier.data(job.cell)[0])}
    return (chosen or Path(options["raw"])) if "raw" in options else None


def check_raw(missing: Sequence[Job], chosen: Path | None) -> None:
    """Raise an error if the raw files are missing; they are downloaded only to a named folder."""
    raw = raw_folder(missing[0], chosen) if missing else None
    if raw is None or raw.is_dir():
        return
    task = missing[0].tier.data(missing[0].cell)[0]
    if chosen is not None and any(option.name == "download" for option in task_options(task)):
        return
    raise MIVError(
        f"{len(missing)} cells are missing, and there is no folder {raw} with the raw files of {task}. Pass it with "
        "--raw (docs/tasks.md describes it), or show the finished cells with --report-only."
    )
