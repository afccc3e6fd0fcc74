"""Answers that come late, or not at all: what was given may have changed meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import digits, expect_count, uploads, watched_page

pytestmark = pytest.mark.slow


class HeldRequests:
    """Requests to one address wait until they are let go."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.held = page, True
        self.routes: list[Any] = []
        page.route(address, lambda route: self.routes.append(route) if self.held else route.continue_())

    def wait_for(self, count: int) -> None:
        for _ in range(600):
            if len(self.routes) >= count:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{len(self.routes)} requests instead of {count}")

    def let_go(self) -> None:
        """The newest first, so that answers come in the wrong order."""
        self.held = False
        for route in reversed(self.routes):
            route.continue_()


def test_the_verdict_is_about_the_bag_that_was_sent(browser: Any, service: str) -> None:
    with watched_page(browser, service) as page:
        page.goto("/?model=miv/evidence")
        page.get_by_role("textbox", name="Query").fill("Anna built the harbour.")
        bag = page.get_by_role("textbox", name="Bag")
        bag.fill("Anna built the harbour in 1902.\nIt rains.")
        held = HeldRequests(page, "**/v1/verify")
        page.get_by_role("button", name="Verify").click()
        held.wait_for(1)
        bag.fill("Other words.\nMore words.\nIt snows.\nThe end.")
        held.let_go()
        page.wait_for_selector(".verdict")
        assert page.locator("ol.bag > .instance .words").all_inner_texts() == [
            "Anna built the harbour in 1902.",
            "It rains.",
        ]
        with page.expect_download() as made:
            page.get_by_role("button", name="Download JSON").click()
        assert len(json.loads(Path(made.value.path()).read_text())["bag"]) == 2


def test_what_another_model_refuses_does_not_hide_the_first_verdict(browser: Any, service: str) -> None:
    with watched_page(browser, service, refused=1) as page:
        page.goto("/?sample=digits-present&compare=cautious")
        expect_count(page, "ol.bag > .instance", 12)
        refusal = {"error": {"status": 422, "message": "The bag has other features."}}
        page.route("**/v1/verify", lambda route: _refuse(route, "cautious", refusal))
        page.get_by_role("button", name="Verify").click()
        page.get_by_role("heading", name="No verdict of cautious").wait_for()
        assert "The bag has other features." in page.get_by_role("alert").inner_text()
        assert page.get_by_role("article", name="Verdict of miv/digits").is_visible()


def _refuse(route: Any, model: str, refusal: dict[str, Any]) -> None:
    if route.request.post_data_json["model"] == model:
        route.fulfill(status=422, json=refusal)
    else:
        route.continue_()


def test_an_older_check_does_not_replace_a_newer_one(browser: Any, service: str) -> None:
    with watched_page(browser, service) as page:
        page.goto("/?mode=check")
        page.get_by_role("textbox", name="Answer", exact=True).fill("The harbour was built in 1902.")
        source = page.get_by_label("Text of the source")
        source.fill("The harbour was built in 1902.")
        held = HeldRequests(page, "**/v1/check")
        page.get_by_role("button", name="Check", exact=True).click()
        held.wait_for(1)
        source.fill("Anna lives here. It rains on her house.")
        page.get_by_role("button", name="Check", exact=True).click()
        held.wait_for(2)
        held.let_go()
        page.wait_for_selector(".counts")
        page.wait_for_load_state("networkidle")
        assert "Anna lives here" in page.get_by_role("region", name="Sources").last.inner_text()


def test_an_older_search_does_not_replace_a_newer_one(browser: Any, service: str) -> None:
    hits = {"hits": [], "bags": 3, "threshold": 0.5, "lower_threshold": None}
    with watched_page(browser, service) as page:
        page.goto("/?mode=gallery&gallery=writers")
        page.wait_for_selector(".empty")
        held = HeldRequests(page, "**/search")
        page.set_input_files("input[data-role=query]", uploads(digits(1)))
        held.wait_for(1)
        page.set_input_files("input[data-role=query]", uploads(digits(1)))
        held.wait_for(2)
        for words, route in (("newer", held.routes[1]), ("older", held.routes[0])):
            route.fulfill(json={**hits, "notes": [f"{words} answer"]})
        page.get_by_text("newer answer").wait_for()
        page.wait_for_load_state("networkidle")
        assert page.get_by_text("older answer").count() == 0
