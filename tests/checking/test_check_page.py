"""The page of a checked answer."""

import re
from pathlib import Path

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv import MIVError
from miv.checking.results import render_check, write_check_page
from tests.checking.words import word_verifier

ANSWER = "Bees make sweet honey. Cats <b>play</b> & hum loudly."
SOURCES = {"bees <i>.md": "Bees live in hives. All bees make sweet honey.\n\nNothing <script>alert(1)</script> here."}


def test_citations_are_links_to_highlighted_sentences() -> None:
    page = render_check(miv.check(ANSWER, SOURCES, verifier=word_verifier()), "An <answer>")
    assert '<a class="cite" href="#c1"' in page
    assert '<mark id="c1"><b>[1]</b> All bees make sweet honey.</mark>' in page
    assert ">not in the sources</span>" in page
    assert "Bees live in hives." in page
    assert 'title="bees &lt;i&gt;.md, line 1, sentence 2; alone' in page
    assert 'All bees make sweet honey.</mark> <small class="line">line 1, sentence 2</small>' in page
    assert '<mark id="c2"><b>(a)</b> ' in page
    assert "Whether it confirms or contradicts it" in page.partition('class="answer-text"')[0]


def test_headings_and_list_items_of_the_answer_are_shown() -> None:
    page = render_check(miv.check("# Bees\n\n- Bees hum.\n2) Bees fly.", SOURCES, verifier=word_verifier()), "Title")
    assert "<p><b>Bees</b></p><p>- Bees hum.</p><p>2) Bees fly.</p>" in page


def test_everything_is_escaped_and_nothing_is_loaded() -> None:
    page = render_check(miv.check(ANSWER, SOURCES, verifier=word_verifier()), "An <answer>")
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)


def test_only_cited_paragraphs_of_long_sources_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.checking.results.MOST_SHOWN", 2)
    page = render_check(miv.check(ANSWER, SOURCES, verifier=word_verifier(), citations=1), "Title")
    assert "All bees make sweet honey." in page
    assert "alert(1)" not in page


def test_it_is_written_as_a_file(tmp_path: Path) -> None:
    checked = miv.check(ANSWER, SOURCES, verifier=word_verifier())
    write_check_page(checked, tmp_path / "page.html", title="Mine")
    assert "<title>Mine: miv check</title>" in (tmp_path / "page.html").read_text()
    with pytest.raises(MIVError, match=r"ends in \.html"):
        write_check_page(checked, tmp_path / "page.pdf")
