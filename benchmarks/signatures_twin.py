"""The signature twin: the signature task with invented signers and forgers; importing it registers the task."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool
from miv.files.json import finite_number
from miv.runtime import Progress
from miv.tasks.base import check_room, check_whole, register_task
from miv.tasks.digits_twin import Float32s, Glyph, ink, trace
from miv.tasks.signature import Writer, draw_exemplars

_SEPARATE = 4  # every fourth writer lifts the pen; SigComp2011 has about three Dutch writers for each Chinese one
_FORGERS = 2  # for each writer
_SAMPLES = 800
_WITHIN = np.array([0.06, 0.06, 0.1])  # standard deviations of slant, width and pen within a signer


@dataclass(frozen=True, eq=False)
class Signer:
    """A person with a signature: random curves of the pen, and habits."""

    glyph: Glyph
    habits: NDArray[np.float64]  # slant, and the logarithms of width to height and of the pen's radius

    @classmethod
    def draw(cls, script: str, rng: np.random.Generator) -> "Signer":
        """Invent a signer who writes ``joined``, in one long stroke, or ``separate``, in several short ones."""
        habits = rng.normal([0.3, 0.1, 0.1], [0.22, 0.18, 0.2])
        if script == "joined":
            x = np.cumsum(rng.uniform(-0.15, 0.7, rng.integers(14, 22)))
            y = rng.uniform(0.3, 1.3, len(x)) * np.where(np.arange(len(x)) % 2, 1, -1)
            return cls(Glyph.from_strokes(list(zip(x.tolist(), y.tolist(), strict=True))), habits)
        strokes = []
        for place in range(int(rng.integers(6, 10))):
            points = rng.uniform(-1, 1, (3, 2)) + np.array([0.5 * place, 0.0])
            strokes.append([(float(x), float(y)) for x, y in points])
        return cls(Glyph.from_strokes(*strokes), habits)

    def sign(
        self, count: int, height: int, difficulty: float, rng: np.random.Generator, forger: "Signer | None" = None
    ) -> NDArray[np.uint8]:
        """Draw ``count`` signatures ``(N, H, 2 H)``, black ink on white; a difficulty of 0 signs the same each time."""
        points = self.glyph.points + difficulty * _wander(count, len(self.glyph.points), rng)
        mean = self.habits
        if forger is not None:
            points = points + 1.3 * _wander(1, len(self.glyph.points), rng)
            mean = (self.habits + forger.habits) / 2
        varied = mean + difficulty * _WITHIN * rng.standard_normal((count, 3))
        slant, width, pen = varied.T.astype(np.float32)[..., None]  # (N, 1) each
        places, _ = trace(self.glyph, points, np.ones(count, np.float32), _SAMPLES)  # (N, M, 2)
        places = np.stack([np.exp(width) * (places[..., 0] - slant * places[..., 1]), places[..., 1]], axis=-1)
        radius = np.broadcast_to((np.exp(pen) * height / 100).clip(0.6), places.shape[:2])
        # Fit the signature into its image.
        size = np.array([2 * height, height], np.float32)
        low, high = places.min(axis=1), places.max(axis=1)  # (N, 2)
        scale = ((0.92 * size - 2 * radius[:, :1] - 2) / (high - low)).min(axis=1)[:, None, None]
        pixels = (places - ((low + high) / 2)[:, None]) * scale + (size - 1) / 2
        return (255 * (0.5 - ink(pixels, radius, height, 2 * height)).clip(0, 1)).astype(np.uint8)


def _wander(count: int, points: int, rng: np.random.Generator) -> Float32s:
    """Return displacements ``(N, K, 2)``: independent ones per point, plus a drift along the signature."""
    own, step = rng.standard_normal((2, count, points, 2))
    return (0.06 * own + 0.03 * np.cumsum(step, axis=1)).astype(np.float32)


@register_task("signatures-twin")
@dataclass(frozen=True)
class SyntheticSignatures:
    """Signatures of invented writers, and forgeries: SigComp2011 without a download. No writer is in two splits.

    Args:
        writers: number of writers in the train split.
        held_out_writers: number of other writers in each of validation and test.
        genuine: number of genuine signatures per writer.
        forged: number of forgeries per writer.
        anchors_per_query: number of random anchors per query; 0 for all.
        height: image height in pixels; images are twice as wide.
        difficulty: variation within a writer; 0 repeats the same image, 1 is the default, more is harder.
        references_per_query: number of signatures to ask with, all genuine or all forged; fewer if there are too few.
        seed: random seed.
        round: index of the random draw; draws are independent.
    """

    writers: int = 60
    held_out_writers: int = 16
    genuine: int = 8
    forged: int = 6
    anchors_per_query: int = 3
    height: int = 64
    difficulty: float = 1.0
    references_per_query: int = 1
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        check_whole(3, 10_000, writers=self.writers, held_out_writers=self.held_out_writers)
        check_whole(2, 1_000, genuine=self.genuine)
        check_whole(16, 1_024, height=self.height)
        check_whole(0, 1_000, forged=self.forged, anchors_per_query=self.anchors_per_query)
        check_whole(1, 100, references_per_query=self.references_per_query)
        check_whole(0, seed=self.seed, round=self.round)
        finite_number("difficulty", self.difficulty, low=0, high=5)
        signatures = (self.writers + 2 * self.held_out_writers) * (self.genuine + self.forged)
        check_room(signatures, self.height, 2 * self.height)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent signers and forgers, let them sign, and draw exemplars as for SigComp2011."""
        counts = {"train": self.writers, "validation": self.held_out_writers, "test": self.held_out_writers}
        sets = {}
        with progress.step("Signing", total=sum(counts.values())) as advance:
            for number, (split, writers) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, number])
                images, classes, places = [], list[str](), []
                for writer in range(writers):
                    script = "separate" if writer % _SEPARATE == _SEPARATE - 1 else "joined"
                    signer = Signer.draw(script, rng)
                    images.append(signer.sign(self.genuine, self.height, self.difficulty, rng))
                    for share in np.array_split(np.arange(self.forged), _FORGERS):
                        forger = Signer.draw(script, rng)
                        images.append(signer.sign(len(share), self.height, self.difficulty, rng, forger))
                    first, middle = len(classes), len(classes) + self.genuine
                    name = f"{split}-{script}-{writer:03d}"
                    classes += [name] * self.genuine + [f"{name}-forged"] * self.forged
                    places.append(Writer(script, list(range(first, middle)), list(range(middle, len(classes)))))
                    advance(1)
                pool = InstancePool("image", np.concatenate(images), np.array(classes, dtype=object))
                sets[split] = draw_exemplars(pool, places, self.anchors_per_query, rng, self.references_per_query)
        return sets
