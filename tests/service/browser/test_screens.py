"""Every view at both ends of the screen sizes, light and dark: nothing too wide, and nothing serious for axe-core."""

from pathlib import Path
from typing import Any

import pytest

from tests.service.browser.watched_page import picture, serious_findings, too_wide, watched_page

pytestmark = pytest.mark.slow
VIEWS = {
    "empty": ("/", ".preview"),
    "verdict": ("/?sample=digits-present&threshold=0.9", ".verdict"),
    "references": ("/?sample=digits-references", ".verdict"),
    "heads": ("/?sample=digits-present&heads=A", ".bars .head"),
    "compared": ("/?sample=digits-absent&compare=cautious", ".verdict + .verdict"),
    "texts": ("/?model=miv/evidence&sample=claim-supported", ".verdict"),
    "vectors": ("/?model=vectors&sample=test-1", ".verdict"),
    "to-check": ("/?mode=check", ".empty"),
    "checked": ("/?mode=check&sample=answer", ".counts"),
    "gallery": ("/?mode=gallery", ".empty"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1920])
def test_every_view(browser: Any, service: str, screenshots: Path, width: int, scheme: str) -> None:
    with watched_page(browser, service, width, scheme, reduced_motion="reduce") as page:
        for name, (address, there) in VIEWS.items():
            page.goto(address)
            page.wait_for_selector(there)
            assert too_wide(page) == 0, name
            picture(page, screenshots, f"{name}-{width}-{scheme}")
            assert serious_findings(page) == [], name
