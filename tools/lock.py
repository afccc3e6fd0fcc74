"""Write ``constraints.txt`` and ``requirements.lock`` anew from ``pyproject.toml``; needs uv (``pip install uv``).

    python tools/lock.py             # keeps the versions that are there, and pins what is new
    python tools/lock.py --upgrade   # takes the newest versions that fit together

``constraints.txt`` pins every package of every extra, those that only other packages ask for included, for Python 3.11
and newer on every system. ``requirements.lock`` has the hashes of all that ``miv[dev]`` needs but torch. The builds of
torch with and without CUDA have one version, but other hashes and other dependencies, so it is installed first, from
the index that a machine uses. Nothing is installed here.
"""

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = "3.11.5"  # the lowest that all of these versions support
TORCH = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-[\w-]+)==")
# What workflows and some tests install besides the extras, and what builds the package.
TOOLS = ("build", "pip-audit", "playwright", "sentence-transformers", "setuptools>=77", "torch<2.14")
CONSTRAINTS_HEADER = """\
# The versions this package is tested with, every transitive package included. Every install in the README, the Makefile
# and CI goes through this file. `python tools/lock.py` writes it.
"""
LOCK_HEADER = """\
# All of miv[dev] but torch, with hashes. `make locked` installs it. `python tools/lock.py` writes it.
"""


def compiled(output: Path, asked: tuple[str, ...], *options: str) -> list[str]:
    """Resolve and return the requirements, one entry per package; uv prefers the versions that ``output`` has."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON, "--no-header"]
    command += ["--no-annotate", *options, "--output-file", str(output), "pyproject.toml", "-"]
    subprocess.run(command, cwd=ROOT, input="\n".join(asked), text=True, check=True)
    return re.split(r"\n(?=\S)", output.read_text(encoding="utf-8").strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    constraints, lock = ROOT / "constraints.txt", ROOT / "requirements.lock"
    entries = compiled(constraints, TOOLS, "--all-extras", *upgrade)
    constraints.write_text(CONSTRAINTS_HEADER + "\n".join(entries) + "\n", encoding="utf-8")
    hashed = ("--generate-hashes", "--extra", "dev", "--constraint", "constraints.txt", "--upgrade")
    entries = [one for one in compiled(lock, ("setuptools>=77",), *hashed) if not TORCH.match(one)]
    lock.write_text(LOCK_HEADER + "\n".join(entries) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
