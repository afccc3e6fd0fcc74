"""The files of the page: safe for any text, and complete."""

import re
from pathlib import Path

import pytest

import miv.service

PAGE = Path(miv.service.__file__).parent / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_never_make_markup_or_code_of_a_text(script: Path) -> None:
    """Text from a file name, a source or the service reaches the page as text nodes and attributes only."""
    words = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser"]
    assert [word for word in words if word in script.read_text("utf-8")] == []


def test_the_page_needs_nothing_from_elsewhere_and_nothing_inline() -> None:
    html = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", html) == []
    for file in PAGE.iterdir():
        outside = re.findall(r"https?://(?!www\.w3\.org/2000/svg)[\w.]+|url\(", file.read_text("utf-8"))
        assert outside == [], file.name


def test_every_file_that_is_named_exists_and_every_file_is_named() -> None:
    named = {name for file in PAGE.iterdir() for name in re.findall(r'"/page/([\w.]+)"', file.read_text("utf-8"))}
    assert named == {file.name for file in PAGE.iterdir()} - {"index.html"}
