"""The batches of one training stage, made by this process or by others."""

import signal

from torch.utils.data import DataLoader, Dataset

from miv.backbones.embedding import prepared
from miv.data import ExemplarSet
from miv.data.batches import Batch, InstanceLookup, embedded, make_batch
from miv.training.lightning_parts import LightningDataModule
from miv.training.sampling import BatchSampler, Part
from miv.training.stage_module import StageModule


class StageData(LightningDataModule):
    """The training batches of a stage, with each distinct instance once."""

    def __init__(self, module: StageModule, workers: int) -> None:
        super().__init__()
        self.module = module
        self.workers = workers
        self.train = module.sets["train"]
        seed = (module.config.seed, module.stage)
        self.sampler = BatchSampler(module.state, module.draw_batches, module.steps, seed, module.share)

    def train_dataloader(self) -> DataLoader[tuple[Batch, float]]:
        """Batches are made in the order of the sampler, by this process or by ``workers`` others."""
        features = self.module.features
        backbone, values = self.module.verifier.backbone, self.train.pool.values
        lookup = prepared(backbone, values) if features is None else embedded(features["train"])
        return DataLoader(
            _Batches(self.train, lookup),
            batch_size=None,
            sampler=self.sampler,
            num_workers=self.workers,
            worker_init_fn=leave_stopping_to_the_parent,
        )


class _Batches(Dataset[tuple[Batch, float]]):
    def __init__(self, exemplars: ExemplarSet, lookup: InstanceLookup) -> None:
        self.exemplars = exemplars
        self.lookup = lookup

    def __getitem__(self, part: Part) -> tuple[Batch, float]:
        chosen, factor = part
        return make_batch(self.exemplars, chosen, self.lookup), factor


def leave_stopping_to_the_parent(worker: int) -> None:
    """Ignore SIGTERM and Ctrl-C in a process that makes batches.

    A scheduler and a terminal send them to all processes of a group. If a worker ended, the training process would
    fail before it could save; when that one ends, so do its workers.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
