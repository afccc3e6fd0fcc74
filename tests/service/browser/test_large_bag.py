"""A bag of 500 pictures: shown in part, then whole, and still quick."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import digits, expect_count, picture, too_wide, uploads, watched_page

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
