"""A wiki dump like FEVER's, of any size, and how fast the reader goes through it.

The pages have the layout of the real dump: about 1.4 kB a line, sentences with links, bracket codes, one
title in thirty not ASCII, one page in twenty empty. A claim names one page in three hundred, as in FEVER.

    python benchmarks/fever_dump.py [--gigabytes 1]

The last line of the output is one JSON object.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from miv.runtime import SilentProgress
from miv.tasks.fever import read_pages

BYTES_A_FILE = 64 << 20
WANTED_ONE_IN = 300


def write_dump(folder: Path, size: int, seed: int = 0) -> list[str]:
    """Write files ``wiki-001.jsonl``, ... of ``size`` bytes in all; return the titles that claims name."""
    rng = np.random.default_rng(seed)
    bodies = _page_bodies(rng, 4000)
    wanted: list[str] = []
    written, number, page = 0, 0, 0
    while written < size:
        number += 1
        in_file, room = 0, min(BYTES_A_FILE, size - written)
        with (folder / f"wiki-{number:03d}.jsonl").open("wb") as file:
            while in_file < room:
                accent = "é" if page % 30 == 0 else "e"
                title = f"Pag{accent}_{page:07d}_-LRB-album-RRB-"
                if page % WANTED_ONE_IN == 0:
                    wanted.append(title)
                # JSON may spell a letter or escape it; half of the accents go each way.
                quoted = json.dumps(title, ensure_ascii=page % 60 == 0).encode()
                in_file += file.write(b'{"id": ' + quoted + bodies[page % len(bodies)])
                page += 1
        written += in_file
    return wanted


def _page_bodies(rng: np.random.Generator, count: int) -> list[bytes]:
    """Everything of a page's line after its title."""
    letters = np.array(list("etaoinshrdlucmfwygpbvk"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 12, 5000)]
    common = 1.0 / np.arange(1, len(words) + 1)
    text = np.array(words)[rng.choice(len(words), 500_000, p=common / common.sum())].tolist()
    bodies = [b', "text": "", "lines": ""}\n'] * (count // 20)
    while len(bodies) < count:
        starts = rng.integers(0, len(text) - 40, rng.integers(1, 8))
        sentences = [" ".join(text[start : start + rng.integers(5, 40)]) + " -LRB- 1990 -RRB- ." for start in starts]
        links = ["\t".join(text[start : start + rng.integers(0, 6)]) for start in starts]
        rows = [f"{i}\t{s}\t{link}" for i, (s, link) in enumerate(zip(sentences, links, strict=True))]
        body = {"text": " ".join(sentences) + " ö ", "lines": "\n".join(rows) + "\n"}
        bodies.append(b", " + json.dumps(body, ensure_ascii=False).encode()[1:] + b"\n")
    order = rng.permutation(len(bodies))
    return [bodies[i] for i in order]


def measure(size: int = 1 << 30, folder: Path | None = None) -> dict[str, float]:
    """Write a dump of ``size`` bytes to a temporary folder, read it on one core, delete it.

    Returns:
        ``fever_mb_per_s``, millions of bytes of JSON lines a second, and ``fever_pages_kept``.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="miv-fever-") as temporary:
        dump = Path(temporary)
        wanted = write_dump(dump, size)
        total = sum(path.stat().st_size for path in dump.iterdir())
        start = time.perf_counter()
        pages = read_pages(dump, wanted, SilentProgress())
        seconds = time.perf_counter() - start
    return {"fever_mb_per_s": round(total / 1e6 / seconds, 1), "fever_pages_kept": len(pages)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the dump")
    print(json.dumps(measure(int(parser.parse_args().gigabytes * (1 << 30)))))
