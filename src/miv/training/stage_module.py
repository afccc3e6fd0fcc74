"""One training stage as Lightning sees it: a module."""

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.evaluation import Predictions
from miv.evaluation.influence import auroc_error
from miv.evaluation.weighted_auroc import weighted_auroc
from miv.inference.prediction import predict
from miv.models.verifier import Verifier
from miv.runtime.processes import ProcessShare
from miv.training.augmentation import DRAWS, affine
from miv.training.config import TrainingConfig
from miv.training.held_out_scores import independent
from miv.training.lightning_parts import LightningModule
from miv.training.optimisers import create_optimiser, learning_rate, set_rates
from miv.training.sampling import Batches, draw_batches
from miv.training.stage_state import CLEAR_AUROC, EpochMetrics, StageState
from miv.training.step_embedding import StepEmbedding

SplitFeatures = dict[str, NDArray[np.float32]]  # (P, C) by split, of a frozen backbone


class StageModule(LightningModule):
    """Trains a verifier, with or without its backbone, on ``train`` and evaluates it on ``validation``.

    Every random number follows from the seed, the stage, the epoch and the step, so that a resumed run
    continues as if it had never stopped.

    Args:
        verifier: the verifier.
        config: the settings of the stage.
        stage: number of the stage.
        sets: the exemplars by split.
        features: features of a frozen backbone.
        memory: bytes for embedding a step, see ``StepEmbedding``; by default enough for everything.
    """

    def __init__(
        self,
        verifier: Verifier,
        config: TrainingConfig,
        stage: int,
        sets: dict[str, ExemplarSet],
        features: SplitFeatures | None = None,
        memory: int = 1 << 62,
    ) -> None:
        super().__init__()
        self.verifier = verifier
        self.config = config
        self.stage = stage
        self.sets = sets
        self.features = features
        self.embedding = StepEmbedding(verifier.backbone, config.bucket, memory)
        self.state = StageState(criterion=config.criterion)
        self.drawn, self.steps = self.count_drawn()
        self._loss_sum = 0.0  # of this process; not on a device, as some have no float64
        self._began = time.monotonic()

    def count_drawn(self) -> tuple[int, int]:
        """Number of exemplars and batches per epoch."""
        drawn = len(self.sets["train"])
        return drawn, -(-drawn // self.config.batch_size)

    def draw_batches(self, random: np.random.Generator) -> Batches:
        """The exemplars of each batch of an epoch; the number of batches is constant."""
        return draw_batches(self.sets["train"], self.config.batch_size, self.config.grouping, random)

    def share(self) -> ProcessShare:
        """The part of every batch that this process takes."""
        return ProcessShare.of_this_process()

    def configure_optimizers(self) -> Optimizer:
        return create_optimiser(self.config, self.verifier, independent(self.sets["train"]))

    def on_train_start(self) -> None:
        self._began = time.monotonic() - self.state.seconds
        self._loss_sum = self.state.loss_sum if self.share().rank == 0 else 0.0

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        epoch, step = self.state.epoch, self.state.step
        done = (epoch * self.steps + step) / (self.config.max_epochs * self.steps)
        set_rates(self.trainer.optimizers[0], learning_rate(self.config, epoch, done))
        rank = self.share().rank  # so that poolings draw different random numbers per process
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
            features = self.embedding(instances, batch.instance)
        return features.float()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.state.step += 1

    def on_train_epoch_end(self) -> None:
        """Evaluate on ``validation`` and end the epoch."""
        self.settle()
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        row = {"learning_rate": rate, "train_loss": self.state.loss_sum / self.drawn, **self.measure()}
        self.state.history.append(row)
        self.state.step, self.state.loss_sum = 0, 0.0
        self._loss_sum = 0.0

    def measure(self) -> EpochMetrics:
        """Current metrics on ``validation``."""
        return self.figures(self.answer(self.sets["validation"]))

    def figures(self, answers: Predictions) -> EpochMetrics:
        """The metrics of an epoch."""
        label, logit = torch.from_numpy(answers.label).double(), torch.from_numpy(answers.logit)
        weight = self.sets["validation"].weight
        right = answers.yes == answers.label
        if weight is None:
            loss, accuracy = functional.binary_cross_entropy_with_logits(logit, label), right.mean()
        else:
            losses = functional.binary_cross_entropy_with_logits(logit, label, reduction="none").numpy()
            loss, accuracy = np.average(losses, weights=weight), np.average(right, weights=weight)
        row = {
            "validation_loss": float(loss),
            "validation_accuracy": float(accuracy),
            "validation_auroc": weighted_auroc(answers.label, answers.logit, weight),
        }
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
        """The predictions for ``validation``."""
        return predict(self.verifier, exemplars, None if self.features is None else self.features["validation"])

    def settle(self) -> None:
        """Copy the sum of losses and the elapsed time, which are counted elsewhere, into the state."""
        self.state.loss_sum = float(self.share().sum(np.float64(self._loss_sum)))
        self.state.seconds = time.monotonic() - self._began

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["stage"] = self.state.document()
        # The state says where to resume. Lightning's own counters would repeat or skip batches, because
        # it creates the first iterator before it knows the epoch.
        del checkpoint["loops"]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.state.restore(checkpoint["stage"])


def _one_number(*numbers: int) -> int:
    """Derive one seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
