"""A service with a token: the page asks for it, and forgets it with the tab."""

from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import picture, serious_findings, watched_page
from tests.service.serving import served

pytestmark = pytest.mark.slow


def test_the_page_asks_for_the_token(browser: Any, tmp_path: Path, screenshots: Path) -> None:
    started = served("miv/digits", keep=tmp_path, token="right-horse-battery")
    with started as address, watched_page(browser, address, refused=3) as page:
        page.goto("/")
        field = page.get_by_label("Token of the server")
        field.wait_for()
        assert field.evaluate("e => e === document.activeElement")
        assert serious_findings(page) == []
        picture(page, screenshots, "token")
        field.fill("wrong horse")
        page.keyboard.press("Enter")
        page.get_by_text("That token was refused.").wait_for()
        page.get_by_label("Token of the server").fill("right-horse-battery")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Try an example").click()
        page.wait_for_selector(".verdict")
        page.reload()  # the tab remembers it
        page.get_by_role("button", name="Try an example").wait_for()
        assert "horse" not in page.url
        assert page.evaluate("Object.values(localStorage).join() + document.cookie").find("horse") == -1
        page.evaluate("sessionStorage.clear()")
        page.reload()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="The token is missing").wait_for()
