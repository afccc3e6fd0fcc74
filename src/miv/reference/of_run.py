"""The reference of a run of ``miv train``, on the features of its final verifier."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from miv.data import ExemplarSet
from miv.models.verifier import Verifier
from miv.reference.plain_figures import Reference
from miv.reference.scoring import reference
from miv.runtime.progress import Progress
from miv.training.run_folder import RunFolder


def reference_of_run(
    run: RunFolder,
    sets: Mapping[str, ExemplarSet],
    *,
    cache: Path,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Reference:
    """Score the plain methods on the features of a run's verifier, and keep the figures in ``reference.json``.

    Args:
        run: a finished run.
        sets: its training and evaluation exemplars, by split.
        cache: folder of the feature cache.
        device: device for embedding; the CPU by default.
        progress: reports the progress of embedding.
    """
    verifier = Verifier.from_pretrained(run.path).to(device or torch.device("cpu"))
    plain = reference(sets, verifier.backbone, cache=cache, progress=progress)
    plain = replace(plain, backbone=run.read_config().get("backbone"))
    plain.save(run.reference)
    return plain
