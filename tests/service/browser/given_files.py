"""Files that a visitor gives to the page."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from miv.tasks.digits_twin import Hands

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
