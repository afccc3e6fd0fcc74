"""The report in a real browser: no error, no request, keys and filters work, nothing wider than the screen."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from miv.evaluation import write_report
from tests.evaluation.report_examples import HOSTILE, source

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("MIV_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, or MIV_CHROMIUM")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        yield found
        found.close()


@pytest.fixture(params=["image", "text", "features"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> tuple[Any, list[str]]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(180_000)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append("dialog " + dialog.message))
    page.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.goto(path.as_uri())
    page.wait_for_selector("#cards article")
    return page, said


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_opens_without_a_word_and_fits_the_screen(
    browser: Any, kind: str, width: int, scheme: str, tmp_path: Path
) -> None:
    write_report(source(kind, HOSTILE), tmp_path / "report.html")
    page, said = opened(browser, tmp_path / "report.html", width, scheme)
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#cards article").count() == 4
    assert page.locator("#telling .witness").count() == 1
    assert HOSTILE in page.locator("#cards .answer").first.inner_text()


def test_filters_and_keys(browser: Any, tmp_path: Path) -> None:
    write_report(source(), tmp_path / "report.html")
    page, said = opened(browser, tmp_path / "report.html")
    headings = page.locator("#cards h3")
    assert headings.all_inner_texts() == ["Exemplar 1", "Exemplar 2", "Exemplar 0", "Exemplar 3"]
    page.select_option("select[name=verdict]", "accept")
    assert sorted(headings.all_inner_texts()) == ["Exemplar 1", "Exemplar 3"]
    page.select_option("select[name=model]", "0")
    assert headings.all_inner_texts() == ["Exemplar 3"]
    page.fill("input[name=low]", "2")
    assert headings.count() == 0
    assert "No exemplar matches" in page.locator("#count").inner_text()
    page.click("button[type=reset]")
    page.wait_for_function("document.querySelectorAll('#cards article').length === 4")
    page.reload()
    page.wait_for_selector("#cards article")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    names = []
    for _ in range(30):  # every stop of the tab key has a name that a screen reader can say
        page.keyboard.press("Tab")
        names.append(page.evaluate(
            "(e => e === document.body ? 'end' : (e.labels && e.labels[0] || e).textContent.trim() || "
            "e.getAttribute('aria-label') || '')(document.activeElement)"
        ))  # fmt: skip
    assert all(names)
    assert said == []


def test_pictures_are_drawn(browser: Any, tmp_path: Path) -> None:
    given = source()
    write_report(given, tmp_path / "report.html")
    page, _ = opened(browser, tmp_path / "report.html")
    drawn = page.evaluate(
        "new Promise(done => setTimeout(() => done(Array.from(document.querySelector('#telling .query canvas')"
        ".getContext('2d').getImageData(0, 0, 5, 4).data).filter((_, i) => i % 4 === 0)), 500))"
    )
    assert drawn == given.exemplars.pool.values[0].flatten().tolist()
