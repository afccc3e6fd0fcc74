"""Stages: each trains a part of the verifier by gradient descent, and resumes where it stopped."""

import csv
import sys
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
from miv.errors import MIVError, StoppedByUser, unknown_name
from miv.evaluation import Predictions
from miv.evaluation.baselines import cosines
from miv.evaluation.metrics import weighted_auroc
from miv.evaluation.predicting import predict
from miv.evaluation.runs import RunFolder
from miv.files.arrays import Vectors
from miv.files.atomic import whole_file
from miv.runtime import CTRL_C, free_memory
from miv.training.checkpoint import (
    BEST,
    LAST,
    EpochMetrics,
    StageState,
    StopRequests,
    read_checkpoint,
    reading_checkpoint,
)
from miv.training.config import TrainingConfig
from miv.training.optimisers import check_state, create_optimiser, learning_rate, set_rates
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
class Machine:
    """Hardware for training: device and memory. It does not affect what is learned."""

    cache: Path  # folder of the feature cache
    accelerator: str = "cpu"  # cpu, gpu, or auto
    quiet: bool = False  # print nothing on standard error

    def say(self, text: str) -> None:
        """Print on standard error, unless the machine is quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def step_memory(self, device: torch.device) -> int:
        """Bytes that may be used to embed a step while the backbone learns: half of what is free."""
        return (torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()) // 2

    def find_device(self) -> torch.device:
        """The device to train on; an error if it is not available."""
        if self.accelerator not in ("auto", "cpu", "gpu"):
            raise unknown_name("accelerator", self.accelerator, ("auto", "cpu", "gpu"))
        if self.accelerator != "cpu":
            if torch.cuda.is_available():
                return torch.device("cuda", 0)
            if torch.backends.mps.is_available():
                return torch.device("mps", 0)
        if self.accelerator == "gpu":
            raise MIVError("The accelerator is 'gpu', and PyTorch finds none on this machine. Try --accelerator cpu.")
        return torch.device("cpu")


@dataclass(frozen=True)
class Stage:
    """``contrast`` trains the backbone, ``frozen`` all but the backbone, and ``all`` everything."""

    name: str  # name of the stage
    number: int  # gives each stage its own random numbers
    frozen: bool  # whether the backbone is frozen
    patience: int  # number of epochs without improvement after which the stage ends
    fits_start: bool = False  # whether a recipe is first fitted to the train bags

    @property
    def keeps_last(self) -> bool:
        """Whether the last epoch is kept: ``contrast`` has no verdicts to choose by."""
        return self.name == CONTRAST

    def new_state(self, config: TrainingConfig) -> StageState:
        """The state before the first epoch."""
        return StageState(criterion=f"validation_{config.select_by}", keeps_last=self.keeps_last)


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
        # The authors trained in float32; a step of bfloat16 takes a third of the time.
        self.embedding = StepEmbedding(verifier.backbone, memory, lower=config.start == "similar")
        train = sets["train"]  # as many exemplars as its instances allow without reuse
        effective_size = min(len(train), len(train.used) / (1 + float(train.bag_sizes.mean())))
        self.optimiser = create_optimiser(config, verifier, effective_size)
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


def _line(stage: Stage, state: StageState, epochs_before: int, seconds: float) -> str:
    """The last epoch, or the start before the first; ``*`` marks the best of the stage so far."""
    row = state.history[-1] if state.history else None
    figures = row or state.start or {}
    said = [f"{stage.name:<6} start     "]
    if row:
        said = [f"{stage.name:<6} epoch {epochs_before + state.epoch:>3}", f"loss {row['train_loss']:.4f}"]
    said += [f"validation {'nearest ' * stage.keeps_last}loss {figures['validation_loss']:.4f}"]
    said += [f"{name} {figures[f'validation_{name.lower()}']:.4f}" for name in ("accuracy", "AUROC")]
    is_best = not stage.keeps_last and state.best == state.epoch - 1  # -1 is the start
    return "  ".join([*said, *([f"{seconds:5.1f} s"] if row else [])]) + " *" * is_best


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
        machine.say(
            f"Stage {stage.name}: {WORDS[stage.name]}.{'' if stage.keeps_last else ' * marks the best so far.'}"
        )
        began = time.monotonic()

        def record(state: StageState) -> None:
            nonlocal began
            if state.history:
                record_metrics(run, {**before, stage.name: state})
            if state.history or (state.start is not None and not state.step):
                machine.say(_line(stage, state, epochs_before, time.monotonic() - began))
            began = time.monotonic()

        try:
            training.run(folder, record)
        except (StoppedByUser, KeyboardInterrupt) as stopped:
            saved_words, code = "; steps since the last save will be repeated", CTRL_C
            if isinstance(stopped, StoppedByUser):
                saved_words, code = str(stopped), stopped.exit_code
            words = f"Stopped in stage {stage.name!r}, epoch {epochs_before + state.epoch + 1}{saved_words}."
            raise StoppedByUser(f"{words} Resume with the same command and --resume.", code) from None
    record_metrics(run, {**before, stage.name: state})  # the process may have been killed between checkpoint and this
    verifier.load_state_dict(Verifier.from_pretrained(folder / BEST).state_dict())
    return state


def record_metrics(run: RunFolder, states: dict[str, StageState]) -> None:
    """Write the metrics of all epochs as CSV, atomically, counted from 1 over all stages."""
    epochs = ((name, row) for name, state in states.items() for row in state.history)
    rows = [{"stage": name, "epoch": number, **row} for number, (name, row) in enumerate(epochs, 1)]
    with whole_file(run.metrics) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        names = dict.fromkeys(name for row in rows for name in row)  # those of a damaged checkpoint may differ
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(rows)
