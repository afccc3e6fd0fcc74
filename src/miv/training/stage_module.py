"""One training stage as a Lightning module: its batches, augmentation, and embedding a step in bounded memory."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Sampler

from miv.backbones import Backbone
from miv.backbones.base import embed
from miv.backbones.hf import HuggingFace
from miv.backbones.hf_text import TextReader, chunks_by_length, token_counts
from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.evaluation import Predictions
from miv.evaluation.metrics import auroc_error, weighted_auroc
from miv.evaluation.predicting import predict
from miv.files.arrays import Vectors
from miv.runtime import ProcessShare
from miv.training.checkpoint import CLEAR_AUROC, EpochMetrics, LightningModule, StageState
from miv.training.config import TrainingConfig
from miv.training.optimisers import create_optimiser, effective_size, learning_rate, set_rates
from miv.verifier.network import Verifier

Part = tuple[NDArray[np.int64], float]  # the exemplars of one process, and the factor of the sum of their losses

Batches = list[NDArray[np.int64]]  # the exemplars of each batch of an epoch


class BatchSampler(Sampler[Part]):
    """The remaining batches of the current epoch, from the current step; each process gets its part.

    The loss of a batch is the mean over its exemplars. With several processes the gradients of the processes are
    averaged, so a part's sum of losses is multiplied by ``processes / exemplars in the batch``.
    """

    def __init__(
        self, state: StageState, draw: Callable[[Generator], Batches], steps: int, seed: tuple[int, ...]
    ) -> None:
        self.state, self.draw, self.steps, self.seed = state, draw, steps, seed

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Part]:
        share = ProcessShare.of_this_process()
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
    """Grow clumps: take an exemplar, then repeatedly add the one with the largest share of instances present."""
    bags = np.split(exemplars.bag_index, exemplars.bag_ptr[1:-1])
    members = [[*bag.tolist(), *exemplars.references(number).tolist()] for number, bag in enumerate(bags)]
    holders: dict[int, list[int]] = defaultdict(list)  # by instance, the exemplars that have it
    for number, instances in enumerate(members):
        for instance in instances:
            holders[instance].append(number)
    free, clumps = set(order), []
    rank = np.argsort(order).tolist()  # ties go to the exemplar drawn first
    for first in order:
        if first not in free:
            continue
        clump: list[int] = []
        present: set[int] = set()
        shared = {first: 1}  # by exemplar, the number of its instances that are present
        while shared and len(clump) < size:
            _, _, exemplar = min((-count / len(members[other]), rank[other], other) for other, count in shared.items())
            clump.append(exemplar)
            free.discard(exemplar)
            del shared[exemplar]
            for other in (other for one in set(members[exemplar]) - present for other in holders[one] if other in free):
                shared[other] = shared.get(other, 0) + 1
            present.update(members[exemplar])
        clumps.append(clump)
    return clumps


TURN = math.radians(5)
SCALE = 0.08  # a side grows or shrinks by at most this share
SHIFT = 0.08  # of the image's side, 2 pixels of 28
DRAWS = 5  # random numbers for one image


def affine(images: Tensor, draws: Tensor) -> Tensor:
    """Shift, turn and scale images ``(U, channels, H, W)`` by ``draws`` ``(U, 5)``, uniform in 0 to 1.

    0.5 changes nothing; 0 and 1 are the extremes.
    """
    turn, wide, high, right, down = ((draws.to(images) - 0.5) * 2).unbind(1)
    cosine, sine = (turn * TURN).cos(), (turn * TURN).sin()
    wide, high = 1 + wide * SCALE, 1 + high * SCALE
    rows = [cosine * wide, -sine * high, right * 2 * SHIFT, sine * wide, cosine * high, down * 2 * SHIFT]
    maps = torch.stack(rows, dim=1).unflatten(1, (2, 3))  # (U, 2, 3)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)  # (U, H, W, 2)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


class StepEmbedding:
    """Embeds the distinct instances of training steps in bounded memory; the gradients do not depend on the limit.

    Texts are embedded in chunks of similar length, other instances together if their graph fits in ``most_bytes``, else
    ``bucket`` at a time. Chunks whose graph does not fit are recomputed in the backward pass with the same random
    numbers. A batch that BatchNorm learns from stays whole, because recomputing would update its statistics twice.
    """

    def __init__(self, backbone: Backbone, bucket: int, most_bytes: int) -> None:
        self.backbone, self.bucket, self.most_bytes = backbone, bucket, most_bytes
        self.recomputed = 0  # chunks of the last step
        self._per_unit: float | None = None  # bytes of the graph per padded token, or per instance of another kind

    def __call__(self, instances: Tensor) -> Tensor:
        """Embed ``(U, ...)`` to ``(U, C)``."""
        backbone, reader = self.backbone, getattr(self.backbone, "reader", None)
        is_encoder = isinstance(backbone, HuggingFace) and type(backbone).forward is HuggingFace.forward
        if is_encoder and isinstance(reader, TextReader) and len(instances):
            lengths = token_counts(instances)
            rows = chunks_by_length(lengths)
            texts = [instances[some, :, : int(lengths[some[0]])] for some in rows]  # (u, 2, L) each
            sizes = [len(tokens) * tokens.shape[2] for tokens in texts]
            features = self._in_chunks(partial(reader.vectors, backbone.get_submodule("model")), texts, sizes)
            return features[torch.cat(rows).argsort()]
        run = partial(embed, backbone, bucket=self.bucket)
        chunks = list(instances.split(self.bucket))
        learns_from_batch = any(isinstance(part, _BatchNorm) and part.training for part in backbone.modules())
        if learns_from_batch or len(chunks) == 1 or self._measured(run, chunks[0]) * len(instances) <= self.most_bytes:
            self.recomputed = 0
            return run(instances)
        return self._in_chunks(run, chunks, [len(chunk) for chunk in chunks])

    def _in_chunks(self, run: Callable[[Tensor], Tensor], chunks: list[Tensor], sizes: list[int]) -> Tensor:
        per_unit = self._measured(run, chunks[0], sizes[0])
        left = self.most_bytes - per_unit * max(sizes)  # one chunk at a time is recomputed, beside all that are kept
        self.recomputed, features = 0, []
        for chunk, size in zip(chunks, sizes, strict=True):
            left -= per_unit * size
            features.append(run(chunk) if left >= 0 else checkpoint(run, chunk, use_reentrant=False))
            self.recomputed += left < 0
        return torch.cat(features)

    def _measured(self, run: Callable[[Tensor], Tensor], chunk: Tensor, size: int | None = None) -> float:
        """Bytes per unit that the graph of a chunk keeps besides weights; measured once."""
        if self._per_unit is not None:
            return self._per_unit
        storages: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            base = tensor if tensor._base is None else tensor._base  # a layer saves the transpose of its weight
            if not isinstance(base, nn.Parameter):
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        # Draws no random number that a resumed run would not draw.
        drawn = torch.random.fork_rng([chunk.device] if chunk.is_cuda else [])
        with drawn, torch.enable_grad(), saved_tensors_hooks(count, lambda tensor: tensor):
            features = run(chunk.clone())  # not a view; alive until counted, as freed memory would be used again
        self._per_unit = sum(storages.values()) / (size or len(chunk))
        del features
        return self._per_unit


Sets = dict[str, ExemplarSet]  # by split
SplitFeatures = dict[str, Vectors]  # (P, C) by split, of a frozen backbone


class StageModule(LightningModule):
    """Trains a verifier, with or without its backbone, on ``train`` and evaluates it on ``validation``.

    Every random number follows from the seed, the stage, the epoch and the step, so that a resumed run continues as if
    it had never stopped. ``features`` are those of a frozen backbone, and ``memory`` the bytes for embedding a step.
    """

    def __init__(
        self,
        verifier: Verifier,
        config: TrainingConfig,
        stage: int,
        sets: Sets,
        features: SplitFeatures | None = None,
        memory: int = 1 << 62,
        state: StageState | None = None,
    ) -> None:
        super().__init__()
        self.verifier, self.config, self.stage = verifier, config, stage
        self.sets, self.features = sets, features
        self.embedding = StepEmbedding(verifier.backbone, config.bucket, memory)
        self.state = state or StageState(criterion=config.criterion)
        self.drawn, self.steps = self.count_drawn()
        self._loss_sum = 0.0  # of this process; not on a device, as some have no float64
        self._began = time.monotonic()

    def count_drawn(self) -> tuple[int, int]:
        """Number of exemplars and batches per epoch."""
        drawn = len(self.sets["train"])
        return drawn, -(-drawn // self.config.batch_size)

    def draw_batches(self, random: Generator) -> Batches:
        """The exemplars of each batch of an epoch; the number of batches is constant."""
        return draw_batches(self.sets["train"], self.config.batch_size, self.config.grouping, random)

    def configure_optimizers(self) -> Optimizer:
        return create_optimiser(self.config, self.verifier, effective_size(self.sets["train"]))

    def on_train_start(self) -> None:
        self._began = time.monotonic() - self.state.seconds
        self._loss_sum = self.state.loss_sum if ProcessShare.of_this_process().rank == 0 else 0.0

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        epoch, step = self.state.epoch, self.state.step
        done = (epoch * self.steps + step) / (self.config.max_epochs * self.steps)
        set_rates(self.trainer.optimizers[0], learning_rate(self.config, epoch, done))
        rank = ProcessShare.of_this_process().rank  # so that poolings draw different random numbers per process
        torch.manual_seed(_one_number(self.config.seed, self.stage, epoch, step, rank))

    def training_step(self, step: tuple[Batch, float], batch_idx: int) -> Tensor:
        batch, factor = step
        if self.features is None:
            batch = batch.with_instances(self._embed(batch))
        losses = self.losses(batch)
        loss = (losses if batch.weight is None else losses * batch.weight).sum()
        if factor:
            self._loss_sum += float(loss.detach())
        return loss * factor

    def losses(self, batch: Batch) -> Tensor:
        """``(B,)`` of a batch over features."""
        answer = self.verifier.verify_features(*batch.queries_and_bags())
        return functional.binary_cross_entropy_with_logits(answer.logit, batch.label, reduction="none")

    def _embed(self, batch: Batch) -> Tensor:
        """``(U, C)``; only the backbone uses bfloat16; the pooling stays exact."""
        instances = batch.instances
        if self.config.augmentation == "affine" and instances.ndim == 4:
            # Drawn for the whole pool, so that an instance changes the same way however processes share the batch.
            seed = _one_number(self.config.seed, self.stage, self.state.epoch, self.state.step)
            generator = torch.Generator().manual_seed(seed)
            draws = torch.rand(len(self.sets["train"].pool), DRAWS, generator=generator)
            instances = affine(instances, draws[batch.instance.cpu()].to(self.device))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            features = self.embedding(instances)
        return features.float()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.state.step += 1

    def on_train_epoch_end(self) -> None:
        """Evaluate on ``validation`` and end the epoch."""
        self.settle()
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        row = {"learning_rate": rate, "train_loss": self.state.loss_sum / self.drawn, **self.measure()}
        self.state.history.append(row)
        self.state.step, self.state.loss_sum, self._loss_sum = 0, 0.0, 0.0

    def measure(self) -> EpochMetrics:
        answers, weight = self.answer(self.sets["validation"]), self.sets["validation"].weight
        losses = np.logaddexp(0, (1 - 2.0 * answers.label) * answers.logit)
        right = answers.yes == answers.label
        row = {"validation_loss": float(np.average(losses, weights=weight))}
        row["validation_accuracy"] = float(np.average(right, weights=weight))
        row["validation_auroc"] = weighted_auroc(answers.label, answers.logit, weight)
        if self.state.criterion == CLEAR_AUROC:
            if self.state.start_logit is None:
                self.state.start_logit = answers.logit.tolist()
            error = auroc_error(answers.label, answers.logit, np.array(self.state.start_logit))
            row[CLEAR_AUROC] = row["validation_auroc"] - error
        return row

    def measure_start(self) -> bool:
        """Evaluate before the first step if the start is a candidate; return whether that was done now."""
        state = self.state
        if self.config.start == "paper" or state.keeps_last or state.start is not None or state.epoch or state.step:
            return False
        state.start = self.measure()
        return True

    def answer(self, exemplars: ExemplarSet) -> Predictions:
        return predict(self.verifier, exemplars, None if self.features is None else self.features["validation"])

    def settle(self) -> None:
        """Copy the sum of losses and the elapsed time, which are counted elsewhere, into the state."""
        self.state.loss_sum = float(ProcessShare.of_this_process().sum(np.float64(self._loss_sum)))
        self.state.seconds = time.monotonic() - self._began

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["stage"] = self.state.document()
        # The state says where to resume; Lightning's own counters would repeat or skip batches.
        del checkpoint["loops"]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.state.restore(checkpoint["stage"])


def _one_number(*numbers: int) -> int:
    """Derive one seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
