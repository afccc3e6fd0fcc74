"""Stages: each trains a part of the verifier by gradient descent, and resumes where it stopped."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from miv.backbones.cache import embed_instances
from miv.bags import Bags
from miv.data import ExemplarSet
from miv.data.batches import Batch, embedded, make_batch
from miv.errors import StoppedByUser
from miv.evaluation import Predictions
from miv.evaluation.baselines import cosines
from miv.evaluation.metrics import auroc_error, weighted_auroc
from miv.evaluation.predicting import predict
from miv.evaluation.runs import RunFolder
from miv.files.arrays import Vectors
from miv.files.atomic import whole_file
from miv.runtime import CTRL_C
from miv.training.checkpoint import (
    BEST,
    CLEAR_AUROC,
    LAST,
    EpochMetrics,
    StageState,
    StopRequests,
    read_checkpoint,
    reading_checkpoint,
    write_metrics,
)
from miv.training.config import TrainingConfig
from miv.training.machine import Machine
from miv.training.optimisers import check_state, create_optimiser, effective_size, learning_rate, set_rates
from miv.training.steps import DRAWS, Batches, StepEmbedding, affine, draw_batches, draw_positives, one_number
from miv.verifier.network import Verifier

Sets = dict[str, ExemplarSet]  # by split
SplitFeatures = dict[str, Vectors]  # (P, C) by split, of a frozen backbone

CONTRAST, FROZEN = "contrast", "frozen"
WORDS = {
    CONTRAST: "train the backbone to find the bag of a query among others; figures are those of the nearest target",
    FROZEN: "train the head; the backbone stays as it is",
    "all": "train the backbone and the head together",
}
TEMPERATURE = 0.1  # of the contrast loss
SAVE_SECONDS = 300.0  # interval between saves within a long epoch


@dataclass(frozen=True)
class Stage:
    """``contrast`` trains the backbone, ``frozen`` all but the backbone, and ``all`` everything."""

    name: str  # name of the stage
    number: int  # gives each stage its own random numbers
    frozen: bool  # whether the backbone is frozen
    patience: int  # number of epochs without improvement after which the stage ends
    fits_start: bool = False  # whether a recipe is first fitted to the train bags
    must_be_clear: bool = False  # whether an epoch must beat the start by a standard error of the AUROC to be kept

    @property
    def keeps_last(self) -> bool:
        """Whether the last epoch is kept: ``contrast`` has no verdicts to choose by."""
        return self.name == CONTRAST

    def new_state(self, config: TrainingConfig) -> StageState:
        """The state before the first epoch."""
        criterion = CLEAR_AUROC if self.must_be_clear else config.criterion
        return StageState(criterion=criterion, keeps_last=self.keeps_last)


class StageTraining:
    """Trains a verifier, with or without its backbone, on ``train`` and evaluates it on ``validation``.

    Every random number follows from the seed, the stage, the epoch and the step, so that a resumed run continues as if
    it had never stopped. ``features`` are those of a frozen backbone, and ``memory`` the bytes for embedding a step.
    """

    def __init__(
        self,
        stage: Stage,
        verifier: Verifier,
        config: TrainingConfig,
        sets: Sets,
        features: SplitFeatures | None = None,
        memory: int = 1 << 62,
        state: StageState | None = None,
    ) -> None:
        self.stage, self.verifier, self.config, self.sets, self.features = stage, verifier, config, sets, features
        self.state = state or stage.new_state(config)
        self.embedding = StepEmbedding(verifier.backbone, memory)
        self.optimiser = create_optimiser(config, verifier, effective_size(sets["train"]))
        self.stops = StopRequests()
        self._began = self._saved = time.monotonic()

    def draw_epoch(self) -> Batches:
        """The exemplars of each batch of the current epoch; the number of batches is constant."""
        random = np.random.default_rng([self.config.seed, self.stage.number, self.state.epoch])
        return self._draw(self.sets["train"], self.config.batch_size, random)

    _draw = staticmethod(draw_batches)

    def batch(self, chosen: np.ndarray) -> Batch:
        """The exemplars at ``chosen``, with each distinct instance once, on the device of the verifier."""
        train, backbone = self.sets["train"], self.verifier.backbone
        if self.features is None:
            found = make_batch(train, chosen, lambda rows: backbone.prepare(train.pool.values[rows]))
        else:
            found = make_batch(train, chosen, embedded(self.features["train"]))
        return found.to(self.verifier.device)

    def run(self, folder: Path, record: Callable[[StageState], None]) -> None:
        """Train to the end of the stage; ``record`` is called before the first step and after each epoch.

        The checkpoint is replaced atomically, and best weights and the end follow from the state in it, so a kill at
        any moment leaves them in agreement.
        """
        self._began = time.monotonic() - self.state.seconds
        with self.stops.listening():
            if self.measure_start():
                self.verifier.save_pretrained(folder / BEST)
            if not self.state.epoch:
                record(self.state)
            while not self.state.is_over(self.config.max_epochs, self.stage.patience):
                batches = self.draw_epoch()
                for chosen in batches[self.state.step :]:
                    self.before_step(folder)
                    self.step(self.batch(chosen), len(batches))
                self.end_epoch(folder, sum(map(len, batches)))
                record(self.state)
            self._stop_if_asked()  # after the last epoch no further step checks for a request to stop

    def before_step(self, folder: Path) -> None:
        """Save at intervals and on a request to stop."""
        if self.stops.exit_code is not None or time.monotonic() - self._saved > SAVE_SECONDS:
            self.save(folder)
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self.stops.exit_code is not None:
            raise StoppedByUser("; everything is saved", self.stops.exit_code)

    def step(self, batch: Batch, steps: int) -> None:
        """Take one step of an epoch of so many."""
        config, state = self.config, self.state
        done = (state.epoch * steps + state.step) / (config.max_epochs * steps)
        set_rates(self.optimiser, learning_rate(config, state.epoch, done))
        # The 0 was the rank of a process.
        torch.manual_seed(one_number(config.seed, self.stage.number, state.epoch, state.step, 0))
        if self.features is None:
            batch = batch.with_instances(self._embed(batch))
        losses = self.losses(batch)
        loss = (losses if batch.weight is None else losses * batch.weight).sum()
        self.optimiser.zero_grad()
        (loss * (1 / len(batch))).backward()
        self.optimiser.step()
        state.loss_sum += float(loss.detach())
        state.step += 1

    def losses(self, batch: Batch) -> Tensor:
        """``(B,)`` of a batch over features."""
        answer = self.verifier.verify_features(*batch.queries_and_bags())
        return functional.binary_cross_entropy_with_logits(answer.logit, batch.label, reduction="none")

    def _embed(self, batch: Batch) -> Tensor:
        """``(U, C)``, after augmentation."""
        instances = batch.instances
        if self.config.augmentation == "affine" and instances.ndim == 4:
            # Drawn for the whole pool, so that a change of the batch leaves the other instances as they are.
            seed = one_number(self.config.seed, self.stage.number, self.state.epoch, self.state.step)
            generator = torch.Generator().manual_seed(seed)
            draws = torch.rand(len(self.sets["train"].pool), DRAWS, generator=generator)
            instances = affine(instances, draws[batch.instance.cpu()].to(instances.device))
        return self.embedding(instances).float()

    def end_epoch(self, folder: Path, exemplars: int) -> None:
        """Evaluate on ``validation`` and save."""
        state = self.state
        rate = self.optimiser.param_groups[0]["lr"]
        state.history.append({"learning_rate": rate, "train_loss": state.loss_sum / exemplars, **self.measure()})
        state.step, state.loss_sum = 0, 0.0
        if state.best == state.epoch - 1:
            self.verifier.save_pretrained(folder / BEST)
        self.save(folder)

    def measure(self) -> EpochMetrics:
        """Loss, accuracy and AUROC on ``validation``."""
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

    def save(self, folder: Path) -> None:
        """Write all that a resumed run needs."""
        self.state.seconds = time.monotonic() - self._began
        weights, steps = self.verifier.state_dict(), self.optimiser.state_dict()
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / LAST) as temporary:
            torch.save({"stage": self.state.document(), "verifier": weights, "optimiser": steps}, temporary)
        self._saved = time.monotonic()

    def restore(self, document: dict[str, Any]) -> None:
        """Go on with the weights of a checkpoint; an error of any type if they do not fit."""
        self.verifier.load_state_dict(document["verifier"])
        self.optimiser.load_state_dict(document["optimiser"])
        check_state(self.optimiser)


def contrast_losses(batch: Batch, temperature: float = TEMPERATURE) -> Tensor:
    r"""How well each query ``(B,)`` finds its own bag among all targets of the batch (MIL-NCE, Miech et al. 2020).

    .. math:: \ell_b = -\log \frac{\sum_{n \in b} \exp\{\cos(q_b, t_n) / \tau\}}{\sum_n \exp\{\cos(q_b, t_n) / \tau\}}

    All exemplars of the batch are positive. A target in several bags counts once. Several references of a query ask
    with their mean direction.
    """
    directions = functional.normalize(batch.instances, dim=1)  # (U, C)
    query, _ = batch.with_instances(directions).queries_and_bags()
    if isinstance(query, Bags):  # several references ask with their mean direction
        query = functional.normalize(query.mean(query.values), dim=1)
    similarity = query @ directions.T / temperature  # (B, U)
    owner = torch.repeat_interleave(torch.arange(len(batch), device=batch.ptr.device), batch.ptr.diff())  # (T,)
    own = torch.zeros_like(similarity, dtype=torch.bool).index_put((owner, batch.bag), torch.tensor(True))  # (B, U)
    in_no_bag = ~own.any(dim=0)  # (U,), queries
    nothing = torch.finfo(similarity.dtype).min  # not -inf: a row of -inf has NaN gradients
    among_all = similarity.masked_fill(in_no_bag, nothing).logsumexp(dim=1)
    return among_all - similarity.masked_fill(~own, nothing).logsumexp(dim=1)


class ContrastTraining(StageTraining):
    """Steps over batches of positive exemplars of one group, so that the group does not identify a bag."""

    _draw = staticmethod(draw_positives)

    def losses(self, batch: Batch) -> Tensor:
        return contrast_losses(batch)

    def answer(self, exemplars: ExemplarSet) -> Predictions:
        """Predict by the target nearest to the query: yes for the half of the bags with the nearest targets."""
        nearest = cosines(exemplars, embed_instances(self.verifier.backbone, exemplars.pool, exemplars.used)).nearest
        return Predictions.of(exemplars, (nearest - np.median(nearest)) / TEMPERATURE, None)


class EpochLines:
    """One line per epoch on standard error, counted over the whole run; ``*`` marks the best of the stage so far."""

    def __init__(self, stage: Stage, epochs_before: int, say: Callable[[str], None]) -> None:
        self._name, self._epochs_before, self._say = stage.name, epochs_before, say
        self._began = time.monotonic()
        say(f"Stage {stage.name}: {WORDS[stage.name]}.{'' if stage.keeps_last else ' * marks the best so far.'}")

    def report(self, state: StageState) -> None:
        """Print the last epoch, or the start before the first."""
        row, seconds, self._began = state.history[-1:], time.monotonic() - self._began, time.monotonic()
        figures = row[0] if row else state.start
        if figures is None or (state.step and not row):
            return
        said = [f"{self._name:<6} start     "]
        if row:
            said = [f"{self._name:<6} epoch {self._epochs_before + state.epoch:>3}", f"loss {row[0]['train_loss']:.4f}"]
        said += [f"validation {'nearest ' * state.keeps_last}loss {figures['validation_loss']:.4f}"]
        said += [f"{name} {figures[f'validation_{name.lower()}']:.4f}" for name in ("accuracy", "AUROC")]
        is_best = not state.keeps_last and state.best == state.epoch - 1  # -1 is the start
        self._say("  ".join([*said, *([f"{seconds:5.1f} s"] if row else [])]) + " *" * is_best)


def run_stage(
    stage: Stage,
    verifier: Verifier,
    config: TrainingConfig,
    sets: Sets,
    run: RunFolder,
    machine: Machine,
    before: dict[str, StageState],
    features: SplitFeatures | None,
    fitting: float,
) -> StageState:
    """Train to the end of the stage, unless it is finished, and load its best weights into the verifier.

    ``before`` holds the earlier stages, ``features`` those of a frozen backbone, ``fitting`` the seconds of the fit.
    """
    config = config.for_stage(stage.name)
    folder = run.checkpoints(stage.name)
    state = stage.new_state(config)
    state.seconds = fitting  # a checkpoint replaces it
    saved = read_checkpoint(folder / LAST, state)
    if not state.is_over(config.max_epochs, stage.patience):
        verifier.backbone.freeze() if stage.frozen else verifier.backbone.unfreeze()
        make = ContrastTraining if stage.name == CONTRAST else StageTraining
        memory = machine.step_memory(verifier.device)
        training = make(stage, verifier, config, sets, features if stage.frozen else None, memory, state)
        if saved is not None:
            with reading_checkpoint(folder / LAST):
                training.restore(saved)
        epochs_before = sum(one.epoch for one in before.values())
        lines = EpochLines(stage, epochs_before, machine.say)

        def record(state: StageState) -> None:
            if state.history:
                record_metrics(run, {**before, stage.name: state})
            lines.report(state)

        try:
            training.run(folder, record)
        except (StoppedByUser, KeyboardInterrupt) as stopped:
            lost = "; steps since the last save will be repeated"
            saved_words, code = (
                (str(stopped), stopped.exit_code) if isinstance(stopped, StoppedByUser) else (lost, CTRL_C)
            )
            place = f"stage {stage.name!r}, epoch {epochs_before + state.epoch + 1}"
            words = f"Stopped in {place}{saved_words}. Resume with the same command and --resume."
            raise StoppedByUser(words, code) from None
    record_metrics(run, {**before, stage.name: state})  # the process may have been killed between checkpoint and this
    verifier.load_state_dict(Verifier.from_pretrained(folder / BEST).state_dict())
    return state


def record_metrics(run: RunFolder, states: dict[str, StageState]) -> None:
    """Write the metrics of all epochs, counted from 1 over all stages; those of the start if nothing was trained."""
    rows: list[dict[str, Any]] = [{"stage": name, **row} for name, state in states.items() for row in state.history]
    first = 1 if rows else 0
    before = {"learning_rate": "", "train_loss": ""}
    rows = rows or [{"stage": name, **before, **one.start} for name, one in states.items() if one.start is not None]
    for number, row in enumerate(rows, first):
        row.pop(CLEAR_AUROC, None)
        rows[number - first] = {"stage": row.pop("stage"), "epoch": number, **row}
    if rows:
        write_metrics(run.metrics, rows)
