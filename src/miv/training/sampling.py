"""The exemplars in each batch of an epoch: a pure function of seed, stage and epoch."""

import heapq
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torch.utils.data import Sampler

from miv.data import ExemplarSet, csr
from miv.runtime import ProcessShare
from miv.training.checkpoint import StageState

Part = tuple[NDArray[np.int64], float]  # the exemplars of one process, and the factor of the sum of their losses

Batches = list[NDArray[np.int64]]  # the exemplars of each batch of an epoch


class BatchSampler(Sampler[Part]):
    """The remaining batches of the current epoch, from the current step; each process gets its part.

    The loss of a batch is the mean over its exemplars. With several processes the gradients of the processes are
    averaged, so a part's sum of losses is multiplied by ``processes / exemplars in the batch``.
    """

    def __init__(
        self,
        state: StageState,
        draw: Callable[[Generator], Batches],
        steps: int,
        seed: tuple[int, ...],
        share: Callable[[], ProcessShare] = ProcessShare.of_this_process,
    ) -> None:
        self.state, self.draw, self.steps, self.seed, self.share = state, draw, steps, seed, share

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Part]:
        share = self.share()
        batches = self.draw(np.random.default_rng([*self.seed, self.state.epoch]))
        for batch in batches[self.state.step :]:
            mine = share.part(batch)
            # A process without exemplars must still take part in the step.
            yield (mine, share.world / len(batch)) if len(mine) else (batch[:1], 0.0)


def draw_batches(exemplars: ExemplarSet, size: int, grouping: int, random: Generator) -> Batches:
    """Batches of ``size`` with every exemplar once; the last may be smaller."""
    order = draw_order(exemplars, grouping, random)
    return [order[start : start + size] for start in range(0, len(order), size)]


def draw_positives(exemplars: ExemplarSet, size: int, random: Generator) -> Batches:
    """Batches of at most ``size`` positive exemplars of one group each, every one of them once."""
    group = np.zeros(len(exemplars)) if exemplars.group is None else exemplars.group
    batches: Batches = []
    for one in np.unique(group):
        order = random.permutation(np.flatnonzero((group == one) & (exemplars.label == 1)))
        batches += np.array_split(order, max(1, -(-len(order) // size))) if len(order) else []
    return [batches[number] for number in random.permutation(len(batches))]


def draw_order(exemplars: ExemplarSet, grouping: int, random: Generator) -> NDArray[np.int64]:
    """A random order of all exemplars; with ``grouping`` above 1, clumps of that size share instances."""
    order = random.permutation(len(exemplars))
    if grouping == 1:
        return order
    clumps = _clumps(exemplars, order.tolist(), grouping)
    return np.concatenate([clumps[number] for number in random.permutation(len(clumps))])


def _clumps(exemplars: ExemplarSet, order: list[int], size: int) -> list[list[int]]:
    """Grow clumps: take an exemplar, then repeatedly add the one with the largest share of instances already present.

    A heap keeps the shares; outdated entries are skipped when popped.
    """
    bags = np.split(exemplars.bag_index, exemplars.bag_ptr[1:-1])
    members = [[*bag.tolist(), *exemplars.references(number).tolist()] for number, bag in enumerate(bags)]
    holders = _holders(exemplars)
    free = [True] * len(members)
    rank = np.argsort(order).tolist()  # ties go to the exemplar drawn first
    clumps = []
    for first in order:
        if not free[first]:
            continue
        clump: list[int] = []
        seen: set[int] = set()
        shared: dict[int, int] = {}
        heap: list[tuple[float, int, int]] = [(0.0, rank[first], first)]
        while heap and len(clump) < size:
            share, _, exemplar = heapq.heappop(heap)
            if not free[exemplar] or -share * len(members[exemplar]) < shared.get(exemplar, 0) - 0.5:
                continue
            free[exemplar] = False
            clump.append(exemplar)
            touched = set()
            for instance in members[exemplar]:
                if instance not in seen:
                    seen.add(instance)
                    for other in holders[instance]:
                        if free[other]:
                            shared[other] = shared.get(other, 0) + 1
                            touched.add(other)
            for other in touched:
                heapq.heappush(heap, (-shared[other] / len(members[other]), rank[other], other))
        clumps.append(clump)
    return clumps


def _holders(exemplars: ExemplarSet) -> list[list[int]]:
    """For each instance, the exemplars that contain it as a reference or in the bag."""
    reference_ptr, references = exemplars.all_references
    instance = np.concatenate([exemplars.bag_index, references])
    exemplar = np.concatenate([exemplars.owner, csr.owners(reference_ptr)])
    by_instance = np.argsort(instance, kind="stable")
    borders = csr.borders(np.bincount(instance, minlength=len(exemplars.pool)))[1:-1]
    return [part.tolist() for part in np.split(exemplar[by_instance], borders)]
