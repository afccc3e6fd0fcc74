"""What pages list is what the code has."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import miv
from miv.backbones import BACKBONES
from miv.evaluation.plain_methods import METHODS
from miv.poolings import POOLINGS
from miv.verifier.out_of_distribution import OutOfDistributionLimit
from miv.verifier.saving import shipped_folder
from miv.verifier.table_reading import COPIED
from miv.verifier.table_writing import RowScoring
from miv.verifier.verifying import BatchVerifier
from miv.verifier.zero_shot import ENCODERS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text("utf-8")


def test_the_table_of_models_is_the_registry() -> None:
    page = (DOCS / "concepts.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+|–) \|.*\| (yes|–) \|$", page, flags=re.MULTILINE)
    expected = [(e.name, e.section, "yes" if e.make.has_attention else "–") for e in POOLINGS]
    assert rows == expected
    assert [row[0] for row in rows] == miv.list_poolings()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in DOCS.glob("*.md"))])
def test_linked_files_exist(name: str) -> None:
    """On GitHub, too; the site has warnings of its own. `make docs` writes the API reference and the examples."""
    links = re.findall(r"\]\((?!http|api/|examples/index)([^)#]+)[^)]*\)", (ROOT / name).read_text("utf-8"))
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


def test_a_list_of_pages_has_every_page() -> None:
    lists = "".join(
        (DOCS / f"{name}.md").read_text("utf-8") for name in ("index", "guide", "models", "paper", "reference")
    )
    assert [page.name for page in DOCS.glob("*.md") if f"]({page.name})" not in lists] == ["index.md"]


def test_the_model_zoo_has_every_verifier_with_its_size_and_every_backbone() -> None:
    page = (DOCS / "models.md").read_text("utf-8")
    digits = shipped_folder("miv/digits")
    assert digits is not None
    for folder in sorted(path for path in digits.parent.iterdir() if path.is_dir()):
        size = (folder / "model.safetensors").stat().st_size / 1e6
        assert re.search(rf"^\| \[`miv/{folder.name}`\].* \| {size:.1f} MB \|", page, re.MULTILINE), folder.name
    own = {entry.name for entry in BACKBONES if entry.make.__module__.startswith("miv.")}  # others are of tests
    assert own <= set(re.findall(r"^\| `(\w+)", page, re.MULTILINE))
    assert set(ENCODERS) <= set(re.findall(r"`(\w+)`[*)]", page))


def test_the_guide_is_short() -> None:
    assert sum(len(page.read_text("utf-8").split()) for page in DOCS.glob("*.md")) <= 22_000


def test_the_page_of_baselines_has_every_method() -> None:
    page = (DOCS / "baselines.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(METHODS)


def test_the_page_on_verifying_has_every_column_of_a_table_of_verdicts() -> None:
    page = (DOCS / "verifying.md").read_text("utf-8")
    table = re.search(r"^\| column \|.*?^$", page, re.MULTILINE | re.DOTALL)
    assert table is not None
    verifier = miv.Verifier("nearest", channels=2)
    verifier.unlike = OutOfDistributionLimit(
        np.zeros(2, np.float32), np.eye(2, dtype=np.float32), np.ones(2), 1.0, 1.0, 0.01
    )
    verifier.operating_point = replace(verifier.operating_point, lower_threshold=0.1)
    listed = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", table[0]))  # without explanations
    assert sorted(listed) == sorted(RowScoring(BatchVerifier(verifier), list(COPIED)).schema)
