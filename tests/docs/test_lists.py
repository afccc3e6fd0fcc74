"""What pages list is what the code has."""

import re
import tomllib
from pathlib import Path

import miv
from miv.poolings import POOLINGS
from miv.reference import METHODS
from miv.training.config import TrainingConfig
from tests.docs.page_blocks import read_blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_table_of_models_is_the_registry() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+|–) \|.*\| (yes|–) \|$", README, flags=re.MULTILINE)
    expected = [(e.name, e.section, "yes" if e.make.has_attention else "–") for e in POOLINGS]
    assert rows == expected
    assert [row[0] for row in rows] == miv.list_poolings()


def test_the_two_commands_come_first() -> None:
    code = README.split("```bash\n")[1].split("```")[0]
    assert [line.split("#")[0].strip() for line in code.strip().splitlines()] == ["make demo", "make test"]


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_page_of_the_reference_has_every_method() -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(METHODS)


def test_the_settings_of_the_page_on_training_are_settings() -> None:
    [example] = [block.text for block in read_blocks(ROOT / "docs" / "training.md") if block.language == "toml"]
    assert TrainingConfig().changed(tomllib.loads(example)).pooling == "cap_vema"
