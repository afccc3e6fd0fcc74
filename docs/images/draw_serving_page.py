"""Photograph the page of ``miv serve`` for the guide: ``python docs/images/draw_serving_page.py``.

Needs playwright and Chromium (``make browser``). Shows only synthetic digits and texts written for the package.
"""

import io
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
# name: address, what must be there first, width and height of the window
VIEWS = {
    "page-verdict": ("/?sample=digits-present", ".verdict", 1360, 1010),
    "page-checked": ("/?mode=check&sample=answer", ".counts", 1480, 800),
}


def main() -> None:
    """Start a service, open each view and keep what the window shows."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "miv", "serve", "miv/digits", "miv/evidence", "--port", str(port)]
    )
    try:
        _wait(f"http://127.0.0.1:{port}/readyz")
        with sync_playwright() as started:
            chromium = os.environ.get("MIV_CHROMIUM") or shutil.which("chromium")
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, view in VIEWS.items():
                _draw(browser, f"http://127.0.0.1:{port}", name, *view)
            browser.close()
    finally:
        service.terminate()
        service.wait()


def _wait(address: str) -> None:
    for _ in range(600):
        try:
            with urlopen(address):  # noqa: S310
                return
        except URLError:
            time.sleep(0.2)
    raise SystemExit("The service did not start.")


def _draw(browser: Any, service: str, name: str, address: str, there: str, width: int, height: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce")
    page.set_default_timeout(120_000)
    page.goto(service + address)
    page.wait_for_selector(there)
    if name == "page-checked":
        page.locator(".cite").first.focus()
    page.wait_for_load_state("networkidle")
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(256).save(HERE / f"{name}.png", optimize=True)
    page.close()


if __name__ == "__main__":
    main()
