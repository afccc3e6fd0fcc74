"""Everything a visitor can give: dropped, pasted, photographed, typed; good and bad."""

from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import digits, drop, expect_count, picture, uploads, watched_page

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)>&amp;\"'"


def test_dropped_and_pasted_pictures_are_verified(browser: Any, service: str) -> None:
    first, *others = digits(5)
    with watched_page(browser, service) as page:
        page.goto("/?model=miv/digits")
        page.wait_for_selector(".giving.query")
        drop(page, "body", {"pasted.png": first}, kind="paste")  # the query is empty, so it goes there
        page.wait_for_selector(".giving.query .thumbs img")
        drop(page, ".giving.bag", {f"{HOSTILE}{place}.png": one for place, one in enumerate(others)})
        page.wait_for_selector(".verdict")
        assert page.locator("ol.bag > .instance").count() == 4
        assert page.locator(".giving.bag .thumbs img").first.get_attribute("alt") == f"{HOSTILE}0.png"
        page.get_by_role("button", name=f"Remove {HOSTILE}0.png").click()
        expect_count(page, "ol.bag > .instance", 3)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Remove {HOSTILE}1.png"
        page.get_by_role("button", name="Clear the bag").click()
        assert page.get_by_role("button", name="Verify").is_disabled()


def test_texts_are_typed_one_per_line_and_never_markup(browser: Any, service: str, screenshots: Path) -> None:
    with watched_page(browser, service) as page:
        page.goto("/?model=miv/evidence")
        page.get_by_role("textbox", name="Query").fill("Anna built the harbour.")
        page.get_by_role("textbox", name="Bag").fill(f"Anna built the harbour in 1902.\n\n{HOSTILE}\nIt rains.")
        assert page.locator(".giving.bag .count").inner_text() == "3 instances"
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".verdict")
        assert HOSTILE in page.locator("ol.bag").inner_text()
        assert "Anna built" not in page.url
        drop(page, ".giving.bag", {"notes.txt": b"One line.\nTwo lines."}, mime="text/plain")
        expect_count(page, "ol.bag > .instance", 2)
        picture(page, screenshots, "texts")


def test_vectors_are_json_or_csv(browser: Any, service: str) -> None:
    row = ", ".join(["0.5"] * 8)
    with watched_page(browser, service) as page:
        page.goto("/?model=vectors")
        page.get_by_role("textbox", name="Query").fill(f"[{row}]")
        bag = page.get_by_role("textbox", name="Bag")
        bag.fill(f"{row}\n{row}, 1")
        assert "Vector 2 has 9 numbers and the first has 8" in page.locator(".giving.bag .problem").inner_text()
        assert page.get_by_role("button", name="Verify").is_disabled()
        bag.fill(f"{row}\n{row.replace('0.5', '-1')}")
        page.get_by_role("button", name="Verify").click()
        page.wait_for_selector(".verdict")
        assert page.locator("ol.bag .chip").count() == 2
        assert "not calibrated" in page.locator(".verdict").inner_text()


def test_what_cannot_be_read_is_said_in_words(browser: Any, service: str, screenshots: Path) -> None:
    good = digits(1)[0]
    with watched_page(browser, service, refused=1) as page:
        page.goto("/?model=miv/digits")
        page.wait_for_selector(".giving.query")
        drop(page, ".giving.query", {"letter.pdf": b"%PDF"}, mime="application/pdf")
        page.get_by_role("alert").filter(has_text="“letter.pdf” is not a picture this page takes").wait_for()
        page.set_input_files("input[data-role=query]", uploads([good]))
        page.set_input_files("input[data-role=bag]", uploads([b"no picture at all"], "broken"))
        trouble = page.locator(".trouble")
        trouble.wait_for()
        assert trouble.get_attribute("role") == "alert"
        assert "The bag (broken 1.png) is not an image" in trouble.inner_text()  # the message of the service
        picture(page, screenshots, "refused")
        page.get_by_role("button", name="Clear the bag").click()
        page.set_input_files("input[data-role=bag]", uploads([good]))
        page.wait_for_selector(".verdict")


def test_a_service_that_is_gone_is_said_and_can_be_asked_again(browser: Any, service: str) -> None:
    with watched_page(browser, service, refused=2) as page:
        page.goto("/")
        page.wait_for_selector("#samples button")
        page.route("**/v1/samples/**", lambda route: route.abort())  # as if the network were gone
        page.get_by_role("button", name="Try an example").click()
        page.get_by_text("The server does not answer.").wait_for()
        page.unroute("**/v1/samples/**")
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector(".verdict")


def test_an_address_opens_the_same_view(browser: Any, service: str) -> None:
    shared = (
        "/?mode=verify&model=miv%2Fdigits&compare=cautious&sample=digits-absent&threshold=0.2&heads=A&order=attention"
    )
    with watched_page(browser, service) as page:
        page.goto(shared)
        page.wait_for_selector(".bars .head")
        assert page.locator(".verdict").count() == 2
        assert page.locator(".what-if output").first.inner_text() == "0.200"
        assert page.get_by_label("Order").input_value() == "attention"
        shares = page.evaluate(
            "[...document.querySelectorAll('ol.bag .m0:not(.head) .bar i')].map(e => parseFloat(e.style.width))"
        )
        assert shares == sorted(shares, reverse=True)
        assert page.url == service + shared
        page.get_by_role("link", name="Check an answer").click()
        page.get_by_role("heading", name="Is each sentence backed by the sources?").wait_for()
        page.go_back()
        page.get_by_role("heading", name="Is there a match among these?").wait_for()
        assert page.url == service + shared
