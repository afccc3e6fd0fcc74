"""What the README says of models is what the registry has; its Python examples run as doctests (pyproject.toml)."""

import re
from pathlib import Path

import miv
from miv.poolings import POOLINGS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_table_of_models_is_the_registry() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+|–) \|.*\| (yes|–) \|$", README, flags=re.MULTILINE)
    expected = [(e.name, e.section, "yes" if e.make.has_attention else "–") for e in POOLINGS]
    assert rows == expected
    assert [row[0] for row in rows] == miv.list_poolings()


def test_the_two_commands_come_first() -> None:
    code = README.split("```bash\n")[1].split("```")[0]
    assert [line.split("#")[0].strip() for line in code.strip().splitlines()] == ["make demo", "make test"]


def test_linked_files_exist() -> None:
    root = Path(__file__).parents[2]
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
