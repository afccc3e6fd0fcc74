"""Combine many small pictures into a few large sheets, which a browser decodes on demand."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data import InstancePool

SHEET_SIDE = 1536  # pixels; a sheet is decoded in about 20 ms
MOST_PIXELS = 30_000_000  # in total; beyond this, pictures are scaled down
SIDES = (192, 160, 128, 96, 80, 64, 48, 32)
LARGEST_SHARP = 64  # pixels; pictures up to this side are kept exactly


def picture_sheets(pool: InstancePool, instances: NDArray[np.int64]) -> dict[str, Any]:
    """Place the pictures of instances, all of one size, on sheets.

    Returns:
        ``width`` and ``height`` of a picture, the number ``across`` and ``down`` per sheet, and the ``sheets`` as
        image addresses. Picture ``i`` is on sheet ``i // (across * down)``, row by row.
    """
    height, width = _shown_size(pool.values.shape[1], pool.values.shape[2], len(instances))
    across, down = max(1, SHEET_SIDE // width), max(1, SHEET_SIDE // height)
    sheets = []
    for start in range(0, len(instances), across * down):
        part = instances[start : start + across * down]
        sheets.append(_sheet(pool, part, width, height, across))
    return {"width": width, "height": height, "across": across, "down": down, "sheets": sheets}


def _shown_size(height: int, width: int, count: int) -> tuple[int, int]:
    """The size of a picture on its sheet: its original size, or smaller if all of them would not fit."""
    for side in SIDES:
        scale = min(1.0, side / max(height, width))
        shown = max(1, round(height * scale)), max(1, round(width * scale))
        if shown[0] * shown[1] * count <= MOST_PIXELS:
            return shown
    return shown


def _sheet(pool: InstancePool, instances: NDArray[np.int64], width: int, height: int, across: int) -> str:
    colour = pool.values.ndim == 4
    sheet = Image.new("RGB" if colour else "L", (across * width, -(-len(instances) // across) * height))
    for number, instance in enumerate(instances):
        picture = Image.fromarray(np.ascontiguousarray(pool.values[instance]))
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.LANCZOS)
        sheet.paste(picture, (number % across * width, number // across * height))
    file = io.BytesIO()
    if max(width, height) <= LARGEST_SHARP and not colour:
        sheet.save(file, "PNG")
        kind = "png"
    else:
        sheet.save(file, "JPEG", quality=82)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
