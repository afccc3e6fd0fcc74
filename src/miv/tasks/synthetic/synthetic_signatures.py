"""The signature twin: the signature task with invented signers and forgers, generated on demand."""

from dataclasses import dataclass

import numpy as np

from miv.data import ExemplarSet, InstancePool
from miv.runtime.progress import Advance, Progress
from miv.tasks.options import check_difficulty, check_room, check_whole
from miv.tasks.signature.signature_bags import Writer, draw_exemplars
from miv.tasks.synthetic.signers import Signer
from miv.tasks.task_base import register_task

_LATIN_TO_HAN = 4  # every fourth writer; SigComp2011 has about three Dutch writers for each Chinese one
_FORGERS = 2  # for each writer


@register_task("signatures-twin", help="Signatures of invented writers, and forgeries: SigComp2011 without a download.")
@dataclass(frozen=True)
class SyntheticSignatures:
    """Signatures of invented writers, genuine and forged; no writer is in two splits.

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
        check_difficulty(self.difficulty)
        signatures = (self.writers + 2 * self.held_out_writers) * (self.genuine + self.forged)
        check_room(signatures, self.height, 2 * self.height)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent signers and forgers, let them sign, and draw exemplars as for SigComp2011."""
        counts = {"train": self.writers, "validation": self.held_out_writers, "test": self.held_out_writers}
        with progress.step("Signing", total=sum(counts.values())) as advance:
            sets = {}
            for number, (split, writers) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, number])
                pool, places = self._sign(split, writers, rng, advance)
                sets[split] = draw_exemplars(pool, places, self.anchors_per_query, rng, self.references_per_query)
        return sets

    def _sign(
        self, split: str, writers: int, rng: np.random.Generator, advance: Advance
    ) -> tuple[InstancePool, list[Writer]]:
        images, places = [], []
        classes: list[str] = []
        for number in range(writers):
            script = "han" if number % _LATIN_TO_HAN == _LATIN_TO_HAN - 1 else "latin"
            signer = Signer.draw(script, rng)
            name = f"{split}-{script}-{number:03d}"
            images.append(signer.sign(self.genuine, self.height, self.difficulty, rng))
            for share in np.array_split(np.arange(self.forged), _FORGERS):
                forger = Signer.draw(script, rng)
                images.append(signer.sign(len(share), self.height, self.difficulty, rng, forger))
            first, middle = len(classes), len(classes) + self.genuine
            classes += [name] * self.genuine + [f"{name}-forged"] * self.forged
            places.append(Writer(script, list(range(first, middle)), list(range(middle, len(classes)))))
            advance(1)
        return InstancePool("image", np.concatenate(images), np.array(classes, dtype=object)), places
