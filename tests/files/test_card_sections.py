"""Sections of a model card: what is around them stays."""

from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.files.json import check_section, write_section

BEGIN, END = "<!-- begin -->", "<!-- end -->"


def test_text_around_a_section_stays(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text(f"# Mine\n\n{BEGIN}\nold\n{END}\n\nMy notes.\n", encoding="utf-8")
    check_section(tmp_path, BEGIN, END)
    write_section(tmp_path, BEGIN, END, "new")
    assert card.read_text(encoding="utf-8") == f"# Mine\n\n{BEGIN}\nnew\n{END}\n\nMy notes.\n"
    write_section(tmp_path, BEGIN, END, "")
    assert card.read_text(encoding="utf-8") == "# Mine\n\n\nMy notes.\n"


@pytest.mark.parametrize("text", ["new", ""])
@pytest.mark.parametrize("content", [f"{BEGIN}\nold\n\nMy notes.\n", f"{END}\n{BEGIN}\nMy notes.\n"])
def test_a_section_without_an_end_is_refused(tmp_path: Path, content: str, text: str) -> None:
    """Its end is unknown, and what follows may be someone's own text."""
    card = tmp_path / "README.md"
    card.write_text(content, encoding="utf-8")
    with pytest.raises(MIVError, match="has <!-- begin -->, but after it there is no <!-- end -->"):
        check_section(tmp_path, BEGIN, END)
    with pytest.raises(MIVError, match="<!-- end -->"):
        write_section(tmp_path, BEGIN, END, text)
    assert card.read_text(encoding="utf-8") == content


def test_a_card_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"# Pr\xfcfer\n")
    with pytest.raises(MIVError, match=r"is not UTF-8.*Save it as UTF-8"):
        check_section(tmp_path, BEGIN, END)


def test_no_card_is_a_card_without_sections(tmp_path: Path) -> None:
    check_section(tmp_path, BEGIN, END)
    write_section(tmp_path, BEGIN, END, "")
    assert not (tmp_path / "README.md").exists()
