"""One service for all tests of the page, and one browser for those of a file."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miv.verifier
from miv import Gallery
from miv.data import ExemplarSet
from miv.data.samples import save_samples
from miv.service import Client
from tests.service.browser.watched_page import digits
from tests.service.serving import CHANNELS, served, vectors_folder

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
    models = ["miv/digits", "miv/evidence", str(_cautious_digits(folder / "cautious"))]
    models.append(str(vectors_folder(folder)))
    random = np.random.default_rng(7)
    queries, bags = random.standard_normal((2, CHANNELS)), random.standard_normal((2, 12, CHANNELS))
    save_samples(ExemplarSet.from_arrays(queries, list(bags), [1, 0]), "test", folder / "vectors")
    letters = Gallery.create(folder / "galleries" / "letters", "miv/digits")
    files = [folder / "pictures" / f"page {number}.png" for number in range(12)]
    files[0].parent.mkdir()
    for file, content in zip(files, digits(12), strict=True):
        file.write_bytes(content)
    letters.add("a letter", files)
    with served(*models, galleries=folder / "galleries", pictures=folder / "pictures") as address:
        with Client(address) as client:
            _fill_gallery(client)
        yield address


# Two bags with something by the writer of the sample's query, one without.
_BAGS = {"letters of 1912": "digits-present", "postcards": "digits-references", "bills": "digits-absent"}


def _fill_gallery(client: Client) -> None:
    client.create_gallery("writers", model="miv/digits")
    for bag, sample in _BAGS.items():
        instances = client.request("GET", f"/v1/samples/{sample}?model=miv/digits")["bag"]
        named = [{**instance, "name": f"page {place}.png"} for place, instance in enumerate(instances, 1)]
        client.request("PUT", f"/v1/galleries/writers/bags/{bag.replace(' ', '%20')}", {"bag": named})


def _cautious_digits(folder: Path) -> Path:
    """A copy of miv/digits that is unsure between 0.3 and 0.9."""
    shutil.copytree(Path(miv.verifier.__file__).parent / "shipped_verifiers" / "digits", folder)
    file = folder / "operating_point.json"
    point = json.loads(file.read_text())
    point |= {"format_version": 2, "threshold": 0.9, "lower_threshold": 0.3, "goal": "stated thresholds 0.3 and 0.9"}
    file.write_text(json.dumps(point))
    return folder


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in MIV_SCREENSHOTS, or one that pytest deletes after a few runs."""
    chosen = os.environ.get("MIV_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
