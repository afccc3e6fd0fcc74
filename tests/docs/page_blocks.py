"""The fenced blocks of a page, and how each is run. CONTRIBUTING.md has the marks, which a reader does not see."""

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from miv.cli.app import app

BLOCK = re.compile(r"((?:^<!-- [^\n]+ -->\n)*)^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"^<!-- (slow|not run|needs)(?:: (.+))? -->$", re.MULTILINE)
SHELLS = ("sh", "bash")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        language: the first word after the fence.
        file: the second word: the file that the block is the content of, or nothing.
        text: what is between the fences.
        slow: whether it takes too long for every test run.
        not_run: why it is not run, or nothing.
        needs: names of files that have to be there before.
    """

    language: str
    file: str
    text: str
    slow: bool
    not_run: str
    needs: tuple[str, ...]


def read_blocks(page: Path) -> list[Block]:
    """All blocks of a page in their order."""
    blocks = []
    for marks_before, info, text in BLOCK.findall(page.read_text("utf-8")):
        marks: dict[str, str] = dict(MARK.findall(marks_before))
        assert info.strip(), f"A block of {page.name} has no language. Write one after the fence:\n{text}"
        assert "not run" not in marks or marks["not run"], f"Say why a block of {page.name} is not run:\n{text}"
        language, _, file = info.partition(" ")
        needs = tuple(marks.get("needs", "").split())
        blocks.append(Block(language, file, text, "slow" in marks, marks.get("not run", ""), needs))
    return blocks


def is_code(block: Block) -> bool:
    """Whether a reader would run the block."""
    return block.language in (*SHELLS, "python")


def run_block(block: Block, names: dict[str, Any]) -> None:
    """Write the file of a block, or run the block; Python blocks of a page share their ``names``."""
    if block.file and not block.language.startswith("{"):
        Path(block.file).write_text(block.text, "utf-8")
    elif block.language in SHELLS:
        run_shell(block.text)
    elif block.language == "python" and ">>> " in block.text:
        run_doctest(block.text, names)
    elif block.language == "python":
        exec(compile(block.text, "block", "exec"), names)


def run_doctest(text: str, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(text, names, "block", None, None)
    failures: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=failures.append, clear_globs=False)
    names.update(example.globs)
    assert not failures, "".join(failures)


def run_shell(text: str) -> None:
    """Run commands; ``miv`` in this process, because starting Python anew takes longer than most commands.

    A line with ``pip install`` is left out: the test environment has every extra.
    """
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("pip install ")]
    if any(not line.startswith("miv ") for line in lines):
        functions = f'miv() {{ "{sys.executable}" -m miv "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'
        command = ["bash", "-e", "-c", functions + "\n".join(lines)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return
    for line in lines:
        words = [path for word in shlex.split(line, comments=True)[1:] for path in expanded(word)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception}"


def expanded(word: str) -> list[str]:
    """The files that a word with a ``*`` names, as a shell would have it."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]
