"""The raw files of QMNIST: names, sources and contents."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.io.downloads import RemoteFile, fetch
from miv.runtime.progress import Progress
from miv.tasks.qmnist.idx import read_idx

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
_TEST_DIGITS = 10_000  # of QMNIST's 60,000 test digits, those that are MNIST's too

IMAGES = {
    "train": ("qmnist-train-images-idx3-ubyte", "train-images-idx3-ubyte"),
    "test": ("qmnist-test-images-idx3-ubyte", "t10k-images-idx3-ubyte"),
}
LABELS = {"train": "qmnist-train-labels-idx2-int", "test": "qmnist-test-labels-idx2-int"}

# Download MNIST's images instead of QMNIST's: the same digits in the same order, in fewer bytes.
DOWNLOADS = {
    "train-images-idx3-ubyte": RemoteFile(
        _MNIST + "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "t10k-images-idx3-ubyte": RemoteFile(
        _MNIST + "t10k-images-idx3-ubyte.gz",
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "qmnist-train-labels-idx2-int": RemoteFile(
        _QMNIST + "qmnist-train-labels-idx2-int.gz",
        463_024,
        "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
    ),
    "qmnist-test-labels-idx2-int": RemoteFile(
        _QMNIST + "qmnist-test-labels-idx2-int.gz",
        526_800,
        "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
    ),
}


@dataclass(frozen=True, eq=False)
class Digits:
    """Handwritten digits: ``images`` ``(P, 28, 28)`` uint8, ``digit`` and ``writer`` ``(P,)`` int64."""

    images: NDArray[np.uint8]
    digit: NDArray[np.int64]
    writer: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.digit)

    def by(self, writers: NDArray[np.int64]) -> "Digits":
        """The digits of the given writers."""
        rows = np.isin(self.writer, writers)
        return Digits(self.images[rows], self.digit[rows], self.writer[rows])


def read_digits(raw: Path, progress: Progress, *, download: bool) -> tuple[Digits, Digits]:
    """Read the 60,000 train digits and the first 10,000 test digits from a folder of raw files.

    Args:
        raw: a folder of QMNIST's label files and either QMNIST's or MNIST's image files, each ``.gz`` or not.
        progress: receives the number of files read.
        download: whether to download missing files.
    """
    paths = _find_files(raw, progress, download=download)
    with progress.step("Reading digits (files)", total=4) as advance:
        train = _read_pair(paths["train images"], paths["train labels"], None)
        advance(2)
        test = _read_pair(paths["test images"], paths["test labels"], _TEST_DIGITS)
        advance(2)
    shared = np.intersect1d(train.writer, test.writer)
    if len(shared):
        raise MIVError(
            f"Writer {shared[0]} is in the train and the test labels of {raw}. The official files share no writers."
        )
    return train, test


def _find_files(raw: Path, progress: Progress, *, download: bool) -> dict[str, Path]:
    choices: dict[str, tuple[str, ...]] = {f"{split} images": IMAGES[split] for split in IMAGES}
    choices |= {f"{split} labels": (LABELS[split],) for split in LABELS}
    found = {what: path for what, names in choices.items() if (path := _first_existing(raw, names))}
    missing = {what: names for what, names in choices.items() if what not in found}
    if missing and not download:
        raise MIVError(_what_to_do(raw, missing))
    for what, names in missing.items():
        try:
            found[what] = fetch(DOWNLOADS[names[-1]], raw, progress)
        except MIVError as error:
            raise MIVError(f"{error}\n{_what_to_do(raw, missing)}") from error
    return found


def _first_existing(raw: Path, names: tuple[str, ...]) -> Path | None:
    candidates = (raw / f"{name}{ending}" for name in names for ending in (".gz", ""))
    return next((path for path in candidates if path.is_file()), None)


def _what_to_do(raw: Path, missing: dict[str, tuple[str, ...]]) -> str:
    lines = [f"Missing in {raw.absolute()} (put them there, compressed or not):"]
    for what, names in missing.items():
        lines.append(f"  {what}: {' or '.join(f'{name}.gz' for name in names)}")
        lines.append(f"    from {DOWNLOADS[names[-1]].url}")
    return "\n".join(lines)


def _read_pair(images_path: Path, labels_path: Path, first: int | None) -> Digits:
    """Read images and their labels; ``first`` takes only that many, as MNIST has a part of QMNIST's test."""
    images = read_idx(images_path)
    if images.ndim != 3 or images.dtype != np.uint8 or 0 in images.shape:
        raise MIVError(f"{images_path} is {images.dtype} {images.shape}. Expected uint8 (N, 28, 28).")
    labels = read_idx(labels_path)
    if labels.ndim != 2 or labels.shape[1] < 3 or labels.dtype.kind != "i":
        raise MIVError(
            f"{labels_path} is {labels.dtype} {labels.shape}. "
            "Expected QMNIST's extended labels, int32 (N, 8): digit, series, writer, ..."
        )
    if first is not None:
        images, labels = images[:first], labels[: min(first, len(images))]
    if len(images) != len(labels):
        raise MIVError(f"{images_path} has {len(images)} images, {labels_path} {len(labels)} labels.")
    digit = _column(labels, 0)
    if digit.min() < 0 or digit.max() > 9:
        row = int(((digit < 0) | (digit > 9)).argmax())
        raise MIVError(f"{labels_path}, row {row}: the digit is {digit[row]}. Expected 0 to 9.")
    return Digits(images, digit, _column(labels, 2))


def _column(labels: NDArray[Any], column: int) -> NDArray[np.int64]:
    return labels[:, column].astype(np.int64)
