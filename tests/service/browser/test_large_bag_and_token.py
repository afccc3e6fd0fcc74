"""A bag of 500 pictures, and a service with a token."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import (
    digits,
    expect_count,
    picture,
    serious_findings,
    too_wide,
    uploads,
    watched_page,
)
from tests.service.serving import served

pytestmark = pytest.mark.slow


def test_of_500_instances_the_best_are_shown_first_and_all_on_request(
    browser: Any, service: str, screenshots: Path
) -> None:
    query, *bag = digits(501)
    with watched_page(browser, service, width=360) as page:
        page.goto("/?model=miv/digits")
        page.set_input_files("input[data-role=query]", uploads([query]))
        page.set_input_files("input[data-role=bag]", uploads(bag))
        page.wait_for_selector(".verdict")
        assert page.locator(".giving.bag .count").inner_text() == "500 instances"
        assert page.locator(".giving.bag .thumbs img").count() == 24
        shown = page.locator("ol.bag > .instance").count()
        assert 60 <= shown <= 120
        page.get_by_label("Order").select_option("attention")
        longest = page.locator("ol.bag > .instance").first.locator(".bar i")
        assert longest.evaluate("e => parseFloat(e.style.width)") == 100  # no share is large, so this one fills its bar
        assert "A full bar is" in page.locator(".key").inner_text()
        picture(page, screenshots, "large-360", full=False)
        began = time.monotonic()
        page.locator(".scene-card").get_by_role("button", name="Show all 500").click()
        expect_count(page, "ol.bag > .instance", 500)
        assert time.monotonic() - began < 10  # not a measurement: only that it does not hang
        assert page.locator("ol.bag").evaluate("e => e === document.activeElement")
        assert too_wide(page) == 0
        with page.expect_download() as made:
            page.get_by_role("button", name="Download PNG").click()
        assert made.value.suggested_filename == "verdict.png"


def test_the_page_asks_for_the_token(browser: Any, screenshots: Path) -> None:
    started = served("miv/digits", token="right-horse-battery")
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
