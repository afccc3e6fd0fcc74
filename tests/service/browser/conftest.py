"""One service for all tests of the page, and one browser for those of a file."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.sample_gallery import fill_gallery
from tests.service.browser.second_model import cautious_digits
from tests.service.service_in_a_thread import served
from tests.service.serving import vectors_folder

CHROMIUM = os.environ.get("MIV_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def playwright() -> Any:
    found = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: run `make browser`, or set MIV_CHROMIUM to its path")
    return found


# Not for the whole session: while Playwright runs, no other test of this process can run an event loop.
@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses root otherwise
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, *camera], timeout=180_000)
        yield found
        found.close()


@pytest.fixture(scope="session")
def service(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with two models for images, one for texts, and a gallery; only if there is a browser."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "galleries").mkdir()
    models = ["miv/digits", "miv/evidence", str(cautious_digits(folder / "cautious"))]
    models.append(str(vectors_folder(folder)))
    with served(*models, galleries=folder / "galleries", keep=folder / "kept") as address:
        fill_gallery(address)
        yield address


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in MIV_SCREENSHOTS, or one that pytest deletes after a few runs."""
    chosen = os.environ.get("MIV_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
