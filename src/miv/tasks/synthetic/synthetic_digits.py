"""The handwriting twin: the QMNIST task with digits by invented writers, generated on demand."""

from dataclasses import dataclass

import numpy as np

from miv.data import ExemplarSet, InstancePool, csr
from miv.runtime.progress import Progress
from miv.tasks.options import check_difficulty, check_room, check_whole
from miv.tasks.qmnist.writer_bags import Recipe, draw_bags, hold_out, plan_exemplars
from miv.tasks.synthetic.hands import SIDE, Hands
from miv.tasks.task_base import register_task


@register_task("digits-twin", help="Handwritten digits by invented writers: QMNIST without a download.")
@dataclass(frozen=True)
class SyntheticDigits:
    """Handwritten digits by invented writers; no writer is in two splits.

    Args:
        writers: number of writers in the train split.
        held_out_writers: number of other writers in each of validation and test.
        copies: number of times a writer writes each of the ten digits.
        difficulty: variation within a writer; 0 repeats the same image, 1 varies as much as QMNIST.
        references_per_query: number of digits of the query's writer to ask with; fewer if there are too few copies.
        seed: random seed.
        round: index of the random draw; draws are independent.
    """

    writers: int = 120
    held_out_writers: int = 40
    copies: int = 5
    difficulty: float = 1.0
    references_per_query: int = 1
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        check_whole(6, 10_000, writers=self.writers, held_out_writers=self.held_out_writers)
        check_whole(2, 1_000, copies=self.copies)
        check_whole(1, 100, references_per_query=self.references_per_query)
        check_whole(0, seed=self.seed, round=self.round)
        check_difficulty(self.difficulty)
        check_room((self.writers + 2 * self.held_out_writers) * 10 * self.copies, SIDE, SIDE)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Invent writers, let them write, and draw exemplars as for QMNIST."""
        counts = {"train": self.writers, "validation": self.held_out_writers, "test": self.held_out_writers}
        with progress.step("Writing digits", total=sum(counts.values()) * 10 * self.copies) as advance:
            sets = {}
            for stream, (split, writers) in enumerate(counts.items()):
                rng = np.random.default_rng([self.seed, self.round, stream])
                writer = np.repeat(np.arange(writers), 10 * self.copies)
                digit = np.tile(np.repeat(np.arange(10), self.copies), writers)
                images = Hands.draw(writers, rng).write(writer, digit, self.difficulty, rng)
                # As in QMNIST: two queries per writer and digit in train, one elsewhere.
                queries = min(2, self.copies - 1) if split == "train" else 1
                stock = hold_out(rng, writer, digit, queries, self.references_per_query)
                plan = plan_exemplars(rng, stock, Recipe(queries, fewest=3, most=5, lent=5, draw="geometric"))
                bag_ptr, bag_index = draw_bags(rng, stock, plan)
                witness = writer[bag_index] == csr.to_rows(writer[plan.query], bag_ptr)
                names = np.array([f"{split}-{number:04d}" for number in writer], dtype=object)
                pool = InstancePool("image", images, names)
                group = digit[plan.query].astype(str)
                reference_ptr, references = stock.references_of(plan.query)
                sets[split] = ExemplarSet(
                    pool,
                    plan.query,
                    bag_ptr,
                    bag_index,
                    plan.label,
                    witness,
                    group,
                    reference_ptr=reference_ptr,
                    reference_index=references,
                )
                advance(len(writer))
        return sets
