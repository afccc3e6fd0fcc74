"""Handwriting verification on QMNIST: does the bag hold a digit by the query's writer?"""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from miv.data import SPLITS, ExemplarSet, InstancePool, csr
from miv.data.split_folders import SPLIT_DRAW
from miv.errors import MIVError
from miv.runtime.progress import Progress
from miv.tasks.options import check_whole, check_word
from miv.tasks.qmnist.qmnist_files import Digits, read_digits
from miv.tasks.qmnist.writer_bags import Draw, ExemplarPlan, Recipe, Stock, draw_bags, hold_out, plan_exemplars
from miv.tasks.task_base import register_task

# The size study draws its exemplars from a larger pool: four sets with more queries and more and more writers
# a bag, and three of the main set with the uniform draw. These are the sets of the authors' released code for
# 10,000 to 24,000 exemplars; their witnesses have the statistics of the paper's Table 5.
_SIZE_STUDY = (
    Recipe(queries=5, fewest=3, most=5, lent=15, draw="uniform"),
    Recipe(queries=5, fewest=6, most=8, lent=10, draw="uniform"),
    Recipe(queries=5, fewest=9, most=14, lent=10, draw="uniform"),
    Recipe(queries=5, fewest=15, most=20, lent=5, draw="uniform"),
    *[Recipe(queries=2, fewest=3, most=5, lent=5, draw="uniform")] * 3,
)
_SMALLEST_BAG = 3
_SIZE_STUDY_EXEMPLARS = 24_000
_SHARE_KEPT = 0.8  # a binomial with this chance has a variance of a fifth of its mean


@register_task("qmnist", help="Handwritten digits: is one in the bag by the query's writer?")
@dataclass(frozen=True)
class Qmnist:
    """Handwriting verification on QMNIST.

    Args:
        raw: folder with the raw files; see docs/tasks.md for their names.
        download: whether to download missing files to that folder.
        draw: distribution of digits per writer in a bag: 'geometric', which matches the paper's statistics, or
            'uniform' from 1 to 5, as in the released code.
        mean_bag: mean bag size of the train set, for the size study (10, 20 or 50 in the paper); default:
            the main set, with mean 6.9.
        exemplars: number of train exemplars; default: all of the main set, or 24,000 of the size study.
        references_per_query: number of digits of the query's writer to ask with, the query among them; fewer if the
            writer has too few.
        round: index of the random draw; draws are independent but use the same writers.
        seed: random seed.
    """

    raw: Path = Path("data/qmnist")
    download: bool = True
    draw: Draw = "geometric"
    mean_bag: int | None = None
    exemplars: int | None = None
    references_per_query: int = 1
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_word("draw", self.draw, get_args(Draw))
        check_whole(_SMALLEST_BAG, 10_000, mean_bag=self.mean_bag)
        check_whole(1, 100_000_000, exemplars=self.exemplars)
        check_whole(1, 100, references_per_query=self.references_per_query)
        check_whole(0, round=self.round, seed=self.seed)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the raw files and draw the sets ``train``, ``validation`` and ``test``."""
        train, test = read_digits(Path(self.raw), progress, download=self.download)
        digits = dict(zip(SPLITS, (train, *self._split_by_writer(test)), strict=True))
        sets = {}
        with progress.step("Drawing exemplars (sets)", total=len(SPLITS)) as advance:
            for split in SPLITS:
                sets[split] = self._build_split(split, digits[split])
                advance(1)
        return sets

    def _random(self, split: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.round, split])

    def _split_by_writer(self, test: Digits) -> tuple[Digits, Digits]:
        """Half of the writers each, the same in all rounds: their sizes match the paper's."""
        rng = np.random.default_rng([self.seed, 0, SPLIT_DRAW])
        writers = rng.permutation(np.unique(test.writer))
        half = (len(writers) + 1) // 2
        return test.by(writers[:half]), test.by(writers[half:])

    def _build_split(self, split: str, digits: Digits) -> ExemplarSet:
        rng = self._random(SPLITS.index(split))
        if split == "train" and self.mean_bag is not None:
            count = self.exemplars or _SIZE_STUDY_EXEMPLARS
            return _draw_by_size(rng, digits, self.mean_bag, count, self.references_per_query)
        recipe = Recipe(queries=2 if split == "train" else 1, fewest=3, most=5, lent=5, draw=self.draw)
        stock = hold_out(rng, digits.writer, digits.digit, recipe.queries, self.references_per_query)
        plan = plan_exemplars(rng, stock, recipe)
        wanted = self.exemplars if split == "train" and self.exemplars is not None else len(plan)
        if wanted > len(plan):
            raise MIVError(
                f"exemplars is {wanted}, but the main train set has {len(plan)}. "
                "Use fewer, or set mean_bag: the size study has any number."
            )
        return _exemplar_set(digits, rng, [(stock, plan.take(rng.permutation(len(plan))[:wanted]))])


def _draw_by_size(rng: np.random.Generator, digits: Digits, mean_bag: int, count: int, references: int) -> ExemplarSet:
    """Draw ``count`` exemplars of binomial bag sizes, without replacement, from the pool of the size study.

    If the pool has too few exemplars of a size, more are drawn with other queries.
    """
    sizes = np.maximum(rng.binomial(np.rint(mean_bag / _SHARE_KEPT), _SHARE_KEPT, count), _SMALLEST_BAG)
    size, wanted = np.unique(sizes, return_counts=True)
    parts: list[tuple[Stock, ExemplarPlan]] = []
    available = np.zeros_like(wanted)
    while (available < wanted).any():
        for recipe in _SIZE_STUDY:
            stock = hold_out(rng, digits.writer, digits.digit, recipe.queries, references)
            plan = plan_exemplars(rng, stock, recipe)
            plan = plan.take(np.flatnonzero(np.isin(plan.bag_sizes, size)))
            parts.append((stock, plan))
            available += (plan.bag_sizes == size[:, None]).sum(axis=1)
        if (available == 0).any():
            raise MIVError(
                f"mean_bag is {mean_bag}, which needs bags of {size[available == 0].max()}; "
                "there are none of that size. Use a smaller mean."
            )
    all_sizes = np.concatenate([plan.bag_sizes for _, plan in parts])
    chosen = np.zeros(len(all_sizes), bool)
    for one, number in zip(size, wanted, strict=True):
        chosen[rng.choice(np.flatnonzero(all_sizes == one), number, replace=False)] = True
    borders = csr.borders([len(plan) for _, plan in parts])[1:-1]
    kept = [
        (stock, plan.take(np.flatnonzero(mine)))
        for (stock, plan), mine in zip(parts, np.split(chosen, borders), strict=True)
        if mine.any()
    ]
    exemplars = _exemplar_set(digits, rng, kept)
    return exemplars.subset(rng.permutation(len(exemplars)))


def _exemplar_set(digits: Digits, rng: np.random.Generator, parts: list[tuple[Stock, ExemplarPlan]]) -> ExemplarSet:
    """The exemplars of several plans with a pool of all digits; a witness is a digit by the query's writer."""
    pool = InstancePool("image", digits.images, digits.writer.astype(str))
    bags = [draw_bags(rng, stock, plan) for stock, plan in parts]
    references = [stock.references_of(plan.query) for stock, plan in parts]
    query = np.concatenate([plan.query for _, plan in parts])
    bag_ptr = csr.borders(np.concatenate([np.diff(ptr) for ptr, _ in bags]))
    bag_index = np.concatenate([index for _, index in bags])
    return ExemplarSet(
        pool,
        query,
        bag_ptr,
        bag_index,
        label=np.concatenate([plan.label for _, plan in parts]),
        witness=digits.writer[bag_index] == csr.to_rows(digits.writer[query], bag_ptr),
        group=digits.digit[query].astype(str),
        reference_ptr=csr.borders(np.concatenate([np.diff(ptr) for ptr, _ in references])),
        reference_index=np.concatenate([index for _, index in references]),
    )
