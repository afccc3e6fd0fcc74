"""What a visitor does on the page, in a real browser against a real service. Longer stories are in other files."""

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from tests.service.browser.watched_page import picture, serious_findings, too_wide, watched_page


def test_the_stories(browser: Any, service: str, screenshots: Path) -> None:
    """One test, because tests in parallel processes would each start a browser and a service, which takes longest."""
    _an_example_is_verified_compared_and_downloaded(browser, service, screenshots)
    _an_answer_is_checked_and_its_citations_light_up(browser, service, screenshots)
    _what_a_reader_should_know_of_a_check_is_shown(browser, service, screenshots)
    _a_gallery_is_searched_on_a_narrow_screen(browser, service, screenshots)


def _an_example_is_verified_compared_and_downloaded(browser: Any, service: str, screenshots: Path) -> None:
    with watched_page(browser, service) as page:
        page.goto("/")
        page.get_by_role("button", name="Try an example").click()
        verdict = page.get_by_role("article", name="Verdict of miv/digits")
        assert "Yes" in verdict.inner_text()
        assert "probability of yes: likely" in verdict.inner_text()
        assert page.locator(".instance.query").count() == 1
        assert page.locator("ol.bag > .instance").count() == 12
        assert page.locator("ol.bag > .instance.witness").count() > 0
        assert "Yes. Match found" in page.locator("#said").inner_text()
        picture(page, screenshots, "verdict")

        _move_the_threshold(page)
        _ask_by_head(page)
        _compare(page)
        _download(page)
        assert serious_findings(page) == []
        assert "data:" not in page.url
        assert "image" not in page.url


def _move_the_threshold(page: Any) -> None:
    slider = page.get_by_role("slider", name="What if the threshold of miv/digits were")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    words = page.locator("p.tried").inner_text()
    assert words.startswith("What if: with a threshold of 0.7")
    slider.fill("0.9")
    assert "would change to no. The calibrated verdict remains yes." in page.locator("p.tried").inner_text()
    assert "calibrated threshold 45\xa0%" in page.locator(".ticks").inner_text()
    assert "threshold=0.9" in page.url
    page.get_by_role("button", name="Back to 0.450").click()
    assert page.locator("p.tried").is_hidden()
    assert "threshold" not in page.url


def _ask_by_head(page: Any) -> None:
    page.get_by_label("Attention", exact=True).select_option("A")
    page.wait_for_selector(".bars .head")
    assert page.locator("ol.bag > .instance").first.locator(".head").count() == 8
    page.get_by_label("Attention", exact=True).select_option("")
    assert page.locator(".bars .head").count() == 0


def _compare(page: Any) -> None:
    page.get_by_label("Compare with").select_option("cautious")
    other = page.get_by_role("article", name="Verdict of cautious")
    assert "Unsure" in other.inner_text()
    assert "Why unsure: The probability lies between the two thresholds" in other.inner_text()
    assert "The models disagree" in page.locator(".agreement").inner_text()
    assert page.locator("ol.bag > .instance").first.locator(".bars li").count() == 2
    assert "compare=cautious" in page.url
    page.get_by_label("Compare with").select_option("")
    other.wait_for(state="detached")


def _download(page: Any) -> None:
    with page.expect_download() as made:
        page.get_by_role("button", name="Download JSON").click()
    document = json.loads(Path(made.value.path()).read_text())
    assert made.value.suggested_filename == "verdict.json"
    assert document["answers"][0]["decision"] == "yes"
    assert len(document["answers"][0]["attention"]) == 12
    with page.expect_download() as made:
        page.get_by_role("button", name="Download PNG").click()
    drawn = Image.open(io.BytesIO(Path(made.value.path()).read_bytes()))
    assert drawn.width == 2000
    assert len(drawn.convert("RGB").getcolors(1 << 24) or []) > 50  # a drawing, not an empty sheet


def _an_answer_is_checked_and_its_citations_light_up(browser: Any, service: str, screenshots: Path) -> None:
    with watched_page(browser, service, width=1920, scheme="dark") as page:
        page.goto("/")
        page.get_by_role("link", name="Check an answer").click()
        page.get_by_role("button", name="Try an example").click()
        page.wait_for_selector(".counts")
        assert page.locator(".said.evidence-found").count() > 0
        assert page.locator(".mark.not-in-the-sources").count() > 0
        assert page.locator(".nearest .cite").count() > 0  # where to look first
        cite = page.locator(".cite").first
        mark = page.locator("#" + cite.get_attribute("href").removeprefix("#"))
        assert "lit" not in (mark.get_attribute("class") or "")
        cite.hover()
        assert "lit" in mark.get_attribute("class")
        page.mouse.move(0, 0)
        assert "lit" not in mark.get_attribute("class")
        cite.focus()
        assert "lit" in mark.get_attribute("class")
        page.keyboard.press("Enter")
        assert mark.locator("a").evaluate("e => e === document.activeElement")
        page.keyboard.press("Enter")
        assert cite.evaluate("e => e === document.activeElement")
        assert cite.get_attribute("aria-label").endswith(mark.inner_text().partition("] ")[2])
        assert serious_findings(page) == []
        assert too_wide(page) == 0
        picture(page, screenshots, "checked-1920-dark")
        with page.expect_download() as made:
            page.get_by_role("button", name="Download JSON").click()
        assert json.loads(Path(made.value.path()).read_text())["counts"]["not in the sources"] > 0


def _what_a_reader_should_know_of_a_check_is_shown(browser: Any, service: str, screenshots: Path) -> None:
    text = (
        "# Towns\n\nAldmere is old.\n\n| Town | Harbour |\n| --- | --- |\n| Aldmere | was built in 1842 |\n"
        "| Brinsea | was built in 1910 |\n\nThe pier of Aldmere &amp; its lighthouse<br>were painted [2] white in 1990."
        " Their bell<br>was cast &amp; hung in 1850.\n\nAldmere is old."
    )
    answer = (
        "The harbour of Aldmere was built in 1842. The pier and the lighthouse of Aldmere were painted white in 1990. "
        "The bell was cast in 1850. Elephants sing in the opera of Paris. The clock of the tower, "
        + "and it, " * 80
        + "chimed."
    )
    with watched_page(browser, service, width=360) as page:
        page.goto("/?mode=check&citations=10")
        page.get_by_role("textbox", name="Answer", exact=True).fill(answer)
        page.get_by_label("Name of the source").fill("towns.md")
        page.get_by_label("Text of the source").fill(text)
        page.get_by_role("button", name="Paste another source").click()
        page.get_by_label("Text of the source").last.fill("---")
        with page.expect_response("**/v1/check") as answered:
            page.get_by_role("button", name="Check", exact=True).click()
        checked = answered.value.json()
        page.wait_for_selector(".counts")
        assert page.locator(".result .reason").all_inner_texts() == checked["warnings"]
        assert "ource 2 has no sentence; it was left out." in page.locator("#said").inner_text()
        [words] = [one["words_read"] for one in checked["sentences"] if one["words_read"]]
        assert page.locator(".remark").all_inner_texts() == [f" (only its first {words} words were read)"]

        labels = [f"[{one['number']}]" for one in checked["citations"]]
        labels += [f"({letter})" for letter, _ in zip("abcdefgh", checked["nearest"], strict=False)]
        cited = checked["citations"] + checked["nearest"]
        assert {one["line"] for one in cited} >= {3, 7, 8, 10, 12}
        for label, one in zip(labels, cited, strict=True):
            mark = page.locator(f"#c{one['number']}")
            shown, line = mark.inner_text(), text.split("\n")[one["line"] - 1]
            assert shown.startswith(label)
            assert shown.removeprefix(label).strip() in line  # not far from where it begins
            assert mark.evaluate("e => e.nextElementSibling.textContent").startswith(f"line {one['line']},")
            assert page.locator(f".cite[href='#c{one['number']}']").first.inner_text() == label
        line_of = {f"c{one['number']}": one["line"] for one in cited}
        in_order = [line_of[one.get_attribute("id")] for one in page.locator("mark").all()]
        assert in_order == sorted(line_of.values())
        assert too_wide(page) == 0
        assert serious_findings(page) == []
        picture(page, screenshots, "checked-remarks-360")


def _a_gallery_is_searched_on_a_narrow_screen(browser: Any, service: str, screenshots: Path) -> None:
    with watched_page(browser, service, width=360) as page:
        page.goto("/?mode=gallery&gallery=writers")
        page.get_by_role("button", name="Try an example").click()
        page.wait_for_selector(".hits")
        hits = page.locator(".hit")
        assert hits.count() == 3
        assert "letters of 1912" in page.locator(".hits").inner_text()
        assert hits.first.locator(".found li").count() > 0
        assert "page " in hits.first.locator(".found").inner_text()  # added by requests, so there are no files
        page.get_by_role("slider").fill("1")
        assert "0 of these 3 bags would be yes" in page.locator("p.tried").inner_text()
        assert too_wide(page) == 0
        assert serious_findings(page) == []
        picture(page, screenshots, "gallery-360")
        page.get_by_label("Gallery").select_option("letters")
        page.get_by_role("button", name="Try an example").click()
        page.wait_for_selector(".hit .witness img, .hit .candidate img")
        assert page.locator(".hit").first.locator("img").count() == 8
        assert "and 4 more" in page.locator(".hit").first.inner_text()
        assert too_wide(page) == 0
        assert serious_findings(page) == []
        picture(page, screenshots, "gallery-pictures-360")
