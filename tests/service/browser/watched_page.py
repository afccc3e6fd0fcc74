"""A page of the browser that writes down what went wrong, and where requests went."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from miv.tasks.digits_twin import Hands

SECONDS = 60_000  # a loaded machine is slow; nothing waits this long if all is well


@contextmanager
def watched_page(
    browser: Any, address: str, width: int = 1280, scheme: str = "light", refused: int = 0, **options: Any
) -> Iterator[Any]:
    """Yields a page; afterwards checks that it said no error and asked no other host.

    ``refused`` requests are meant to fail: one for each that the service refuses, two for each that does not reach it.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=address, **options
    )
    context.set_default_timeout(SECONDS)
    page, wrong, hosts = context.new_page(), [], set()
    page.on("console", lambda one: wrong.append(one.text) if one.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
    page.on("requestfailed", lambda one: _note_failure(wrong, one))
    page.on("request", lambda one: hosts.add(urlsplit(one.url).netloc))
    try:
        yield page
        expected = [one for one in wrong if one.startswith("Failed to load resource")][:refused]
        for one in expected:
            wrong.remove(one)
        assert wrong == []
        assert hosts <= {urlsplit(address).netloc, ""}  # "" for data: and blob:
    finally:
        context.close()


def _note_failure(wrong: list[str], request: Any) -> None:
    """A request that the page itself stopped, because a newer one replaced it, is none."""
    if "ERR_ABORTED" not in str(request.failure):
        wrong.append(f"Failed to load resource {request.url}: {request.failure}")


def too_wide(page: Any) -> int:
    """How many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def settle(page: Any) -> None:
    """Wait until pictures in the window are decoded, so that two screenshots look alike."""
    page.evaluate(
        "Promise.all([...document.images].filter(i => i.loading !== 'lazy').map(i => i.decode().catch(() => 0)))"
    )
    page.wait_for_load_state("networkidle")


def picture(page: Any, folder: Path, name: str, full: bool = True) -> None:
    """Keep a screenshot."""
    settle(page)
    if full:
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")  # else the header that stays in view covers something
    page.screenshot(path=folder / f"{name}.png", full_page=full)


def expect_count(page: Any, selector: str, count: int) -> None:
    """Wait until so many elements are there."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(count, timeout=SECONDS)


# axe-core, which the package axe-playwright-python brings along.

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def serious_findings(page: Any) -> list[str]:
    """What axe-core calls serious or critical on the page as it is now."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("needs axe-playwright-python, which has axe-core")
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")  # else the header that stays in view covers something
    page.evaluate((Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("rules => axe.run({runOnly: {type: 'tag', values: rules}})", _RULES)
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:240]}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


# Files that a visitor gives to the page.

# Drops files on an element as a person does: the browser makes no such event for a script by itself.
_DROP = """([selector, files]) => {
  const given = new DataTransfer();
  for (const {name, type, content} of files)
    given.items.add(new File([Uint8Array.from(atob(content), c => c.charCodeAt(0))], name, {type}));
  const event = kind === 'paste'
    ? new ClipboardEvent('paste', {clipboardData: given, bubbles: true, cancelable: true})
    : new DragEvent('drop', {dataTransfer: given, bubbles: true, cancelable: true});
  document.querySelector(selector).dispatchEvent(event);
}"""


def digits(count: int, seed: int = 0) -> list[bytes]:
    """PNG files of synthetic digits by several writers."""
    rng = np.random.default_rng(seed)
    hands = Hands.draw(10, rng)
    images = hands.write(np.arange(count) % 10, np.arange(count) % 7, 1.0, rng)
    return [_png(image) for image in images]


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def uploads(contents: list[bytes], prefix: str = "digit") -> list[dict[str, Any]]:
    """As ``set_input_files`` takes them."""
    return [
        {"name": f"{prefix} {place}.png", "mimeType": "image/png", "buffer": content}
        for place, content in enumerate(contents, 1)
    ]


def drop(page: Any, selector: str, contents: dict[str, bytes], kind: str = "drop", mime: str = "image/png") -> None:
    """Drop files on an element, or paste them there."""
    files = [
        {"name": name, "type": mime, "content": base64.b64encode(content).decode()}
        for name, content in contents.items()
    ]
    page.evaluate(_DROP.replace("kind === 'paste'", f"{str(kind == 'paste').lower()}"), [selector, files])
