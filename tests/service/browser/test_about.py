"""The page says what the chosen model decides."""

from typing import Any

from tests.service.browser.watched_page import watched_page


def test_the_page_says_what_the_chosen_model_decides(browser: Any, service: str) -> None:
    with watched_page(browser, service) as page:
        page.goto("/?model=miv/digits")
        about = page.locator(".filters .about")
        assert "by the writer of the query" in about.inner_text()
        page.get_by_role("link", name="Check an answer").click()
        assert "evidence on the claim" in about.inner_text()
