"""The page without a mouse: every stop of the Tab key is named and visible, and everything can be reached."""

from typing import Any

import pytest

from tests.service.browser.watched_page import watched_page

pytestmark = pytest.mark.slow
# The name that a screen reader says, and whether the focus can be seen.
_STOP = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  if (e === document.body) return null;
  const words = (e.labels && e.labels[0] || e).textContent.trim();
  const name = e.getAttribute('aria-label') || words || e.placeholder || e.title || '';
  return [name, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
}"""


def _tab_to(page: Any, name: str, most: int = 80) -> list[str]:
    """Press Tab until something with this name has the focus; the names on the way."""
    names: list[str] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = page.evaluate(_STOP)
        assert stop is not None, f"{name!r} was not reached: {names}"
        assert stop[0], f"a stop after {names[-1:]} has no name"
        assert stop[1], f"the focus on {stop[0]!r} cannot be seen"
        names.append(stop[0])
        if name in stop[0]:
            return names
    raise AssertionError(f"{name!r} was not reached: {names}")


def test_the_whole_story_by_keys(browser: Any, service: str) -> None:
    with watched_page(browser, service) as page:
        page.goto("/")
        page.wait_for_selector(".preview")
        assert _tab_to(page, "Skip to the content") == ["Skip to the content"]
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "work"
        _tab_to(page, "Try an example")
        page.keyboard.press("Enter")
        page.wait_for_selector(".verdict")
        passed = _tab_to(page, "What if the threshold of miv/digits were")
        assert any("Add more" in name for name in passed)  # the places to drop files on are buttons
        assert any("Photograph the bag" in name for name in passed)
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        assert "What if" in page.locator("p.tried").inner_text()
        _tab_to(page, "Order")
        page.keyboard.press("ArrowDown")
        assert page.get_by_label("Order").evaluate("e => e === document.activeElement && e.value") == "attention"
        _tab_to(page, "Attention")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".bars .head")
        assert page.get_by_label("Attention", exact=True).evaluate("e => e === document.activeElement")
        _tab_to(page, "Download JSON")
