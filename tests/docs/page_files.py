"""Files that pages need, such as a trained verifier or some images: small, and made once for all pages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.claims_twin import SyntheticClaims
from PIL import Image

from miv import Verifier
from miv.data import save_splits
from miv.runtime import SilentProgress
from tests.docs.page_blocks import run_shell

IMAGES = {"kind": "image", "height": 28, "width": 28, "mode": "L"}
POOLINGS = {"cap": "cap_dba_l2", "dba": "cap_dba_l2", "baseline": "baseline", "mi_net": "mi_net"}
ROOT = Path(__file__).parents[2]


class PageFiles:
    """Makes each file in a folder of its own, once, and copies it to the pages that need it.

    Args:
        folder: where the originals are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str) -> None:
        """Put a file into the working folder, unless the page has made it; ``trained:runs/cap`` is a finished run."""
        kind, _, path = name.rpartition(":")
        if Path(path).exists():
            return
        original = self.folder / (kind or "made") / path
        if not original.exists():
            original.parent.mkdir(parents=True, exist_ok=True)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(self.folder / (kind or "made"))
                self._make(kind, Path(path))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(original, path) if original.is_dir() else shutil.copy(original, path)

    def _make(self, kind: str, path: Path) -> None:
        if kind == "trained":
            self.put("twin")
            train(path)
            return
        MAKERS[str(path)](path)


def exemplars(folder: Path) -> None:
    run_shell(f"miv data build digits-twin --out {folder} --writers 12 --held-out-writers 8 --difficulty 0.2")


def claims(folder: Path) -> None:
    save_splits(SyntheticClaims(pages=8, held_out_pages=4).build(SilentProgress()), folder)


def verifier(folder: Path) -> None:
    """An untrained verifier: it starts as the nearest image, which is enough to be called."""
    Verifier(POOLINGS[folder.name], backbone="hog", instances=IMAGES, pooling_options={}).save_pretrained(folder)


def vector_verifier(folder: Path) -> None:
    Verifier("cap_dba_l2", channels=16).save_pretrained(folder)


def text_verifier(folder: Path) -> None:
    Verifier("cap_dba_l2", backbone="hf:minilm", pooling_options={"heads": 1}).save_pretrained(folder)


def train(folder: Path) -> None:
    pooling = POOLINGS[folder.name]
    run_shell(f"miv train twin --out {folder} --pooling {pooling} --max-epochs 1 --no-baselines")


def images(path: Path) -> None:
    """An image file, or a folder with three, each with strokes of its own."""
    random = np.random.default_rng(len(str(path)))
    is_folder = not path.suffix
    path.mkdir() if is_folder else None
    for file in [path / f"{number}.png" for number in range(3)] if is_folder else [path]:
        picture = np.zeros((28, 28), np.uint8)
        picture[4:24, random.integers(4, 20) :][:, :3] = 255
        Image.fromarray(picture).save(file)


def photos(folder: Path) -> None:
    """One folder of ten pictures per class."""
    random = np.random.default_rng(0)
    for name in ("anna", "bea", "carl", "dmitri", "elif", "femi", "greta", "hugo", "ines", "jun", "kofi", "lena"):
        (folder / name).mkdir(parents=True)
        face = random.integers(0, 200, (16, 16))
        for number in range(10):
            picture = face + random.integers(0, 55, face.shape)
            Image.fromarray(picture.astype(np.uint8)).save(folder / name / f"{number}.png")


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content, "utf-8")


def onnx_verifier(path: Path) -> None:
    shutil.copy(ROOT / "src" / "miv" / "interop" / path.name, path)


MAKERS: dict[str, Callable[[Path], object]] = {
    "twin": exemplars,
    "claims": claims,
    **{f"runs/{name}": verifier for name in POOLINGS},
    "runs/claims": text_verifier,
    "runs/vectors": vector_verifier,
    **dict.fromkeys(("anna.png", "letter1.png", "letter2.png", "letter3.png", "letters"), images),
    "photos": photos,
    "letters.csv": text("path\nletters/0.png\nletters/1.png\n"),
    "pairs.csv": text("query,bag\nletters/0.png,letters/1.png|letters/2.png\n"),
    "sentences.txt": text("The sky is blue.\nGrass is green.\n"),
    "onnx_verifier.py": onnx_verifier,
}
