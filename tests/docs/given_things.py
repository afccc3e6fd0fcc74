"""What pages take for granted, such as a trained verifier or some images: small, and made in a moment."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from miv import Verifier
from tests.backbones.sounds import write_random_weights, write_voice
from tests.docs.page_blocks import run_shell

IMAGES = {"kind": "image", "height": 28, "width": 28, "mode": "L"}
POOLINGS = {"cap": "cap_dba_l2", "dba": "cap_dba_l2", "baseline": "baseline", "mi_net": "mi_net", "msa": "msa"}
ROOT = Path(__file__).parents[2]


def put_here(name: str) -> None:
    """Put a thing into the working folder, unless the page has made it already; ``trained:runs/cap`` trains a run."""
    kind, _, path = name.rpartition(":")
    if not Path(path).exists():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        (run if kind == "trained" else THINGS[path])(Path(path))


def exemplars(folder: Path) -> None:
    run_shell(f"miv data build digits-twin --out {folder} --writers 12 --held-out-writers 8 --difficulty 0.2")


def claims(folder: Path) -> None:
    run_shell(f"miv data build claims-twin --out {folder} --pages 8 --held-out-pages 4")


def verifier(folder: Path) -> None:
    """A verifier that is not trained: it starts as the nearest image, which is enough to be called."""
    made = Verifier(POOLINGS[folder.name], backbone="hog", instances=IMAGES, pooling_options={})
    made.save_pretrained(folder)


def text_verifier(folder: Path) -> None:
    Verifier("cap_dba_l2", backbone="hf:minilm", pooling_options={"heads": 1}).save_pretrained(folder)


def run(folder: Path) -> None:
    """The folder of a finished training, of an epoch."""
    put_here("twin")
    pooling = POOLINGS[folder.name]
    run_shell(f"miv train twin --out {folder} --pooling {pooling} --max-epochs 1 --align-epochs 0 --no-reference")


def images(path: Path) -> None:
    """An image file, or a folder with three, each with strokes of its own."""
    random = np.random.default_rng(len(str(path)))
    is_folder = not path.suffix
    path.mkdir() if is_folder else None
    for file in [path / f"{number}.png" for number in range(3)] if is_folder else [path]:
        picture = np.zeros((28, 28), np.uint8)
        picture[4:24, random.integers(4, 20) :][:, :3] = 255
        Image.fromarray(picture).save(file)


def table_of_letters(path: Path) -> None:
    put_here("letters")
    path.write_text("path\nletters/0.png\nletters/1.png\n", "utf-8")


def table_of_pairs(path: Path) -> None:
    put_here("letters")
    path.write_text("query,bag\nletters/0.png,letters/1.png|letters/2.png\n", "utf-8")


def sentences(path: Path) -> None:
    path.write_text("The sky is blue.\nGrass is green.\n", "utf-8")


def speaker_weights(path: Path) -> None:
    """An encoder with random weights, which needs no download."""
    write_random_weights(path)


def recording(path: Path) -> None:
    write_voice(path, hertz=200 + 10 * len(path.name), seconds=4.0)


def voices(folder: Path) -> None:
    for number in range(10):
        write_voice(folder / f"speaker{number}" / "talk.wav", hertz=150 + 90 * number, seconds=10.0)


def onnx_verifier(path: Path) -> None:
    shutil.copy(ROOT / "src" / "miv" / "interop" / path.name, path)


THINGS: dict[str, Callable[[Path], None]] = {
    "twin": exemplars,
    "claims": claims,
    **{f"runs/{name}": verifier for name in POOLINGS},
    "runs/claims": text_verifier,
    "anna.png": images,
    "letter1.png": images,
    "letter2.png": images,
    "letter3.png": images,
    "letters": images,
    "letters.csv": table_of_letters,
    "pairs.csv": table_of_pairs,
    "sentences.txt": sentences,
    "onnx_verifier.py": onnx_verifier,
    "speaker.safetensors": speaker_weights,
    "anna.wav": recording,
    "meeting.wav": recording,
    "voices": voices,
}
