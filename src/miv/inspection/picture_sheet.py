"""The contact sheet as one PNG, for images and features."""

from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from miv.data import ExemplarSet
from miv.data.thumbnails import Thumbnails
from miv.errors import MIVError

if TYPE_CHECKING:
    from miv.inspection.contact_sheet import SheetRow

CELL = 64  # pixels; a picture keeps its proportions inside
GAP = 8
FRAME = 3
ACROSS = 12  # bag members per line
CAPTION = 22
QUERY, WITNESS, LINE, INK, PAPER = "#2456a6", "#d97706", "#d8dbe0", "#1c2026", "#ffffff"


def draw_sheet(sets: dict[str, ExemplarSet], rows: "dict[str, list[SheetRow]]") -> Image.Image:
    """Draw each exemplar as a caption and a band: the query framed in blue, then its bag."""
    for name, exemplars in sets.items():
        if exemplars.pool.kind == "text":
            raise MIVError(
                f"The set {name!r} holds texts, which need an .html sheet. Choose a name that ends in .html."
            )
    step = CELL + GAP
    band = {id(row): CAPTION + _lines(row) * step + GAP for part in rows.values() for row in part}
    width = 2 * GAP + (ACROSS + 1) * step + GAP
    sheet = Image.new("RGB", (width, sum(band.values()) + len(sets) * CAPTION + 2 * GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(14)
    top = GAP
    for name, exemplars in sets.items():
        pen.text((GAP, top), f"{name}: {len(rows[name])} of {len(exemplars):,} exemplars", INK, font)
        top += CAPTION
        thumbnails = Thumbnails(exemplars.pool)
        for row in rows[name]:
            _draw_exemplar(sheet, exemplars, row, thumbnails, top, font)
            top += band[id(row)]
    return sheet


def _lines(row: "SheetRow") -> int:
    return -(-len(row.places) // ACROSS)


def _draw_exemplar(
    sheet: Image.Image,
    exemplars: ExemplarSet,
    row: "SheetRow",
    thumbnails: Thumbnails,
    top: int,
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
) -> None:
    words = [f"exemplar {row.exemplar}", "positive" if exemplars.label[row.exemplar] else "negative"]
    if exemplars.group is not None:
        words.append(f"group {exemplars.group[row.exemplar]}")
    references = len(exemplars.references(row.exemplar))
    if references > 1:
        words.append(f"the first of {references} references")
    if row.left_out:
        words.append(f"and {row.left_out} more members")
    ImageDraw.Draw(sheet).text((GAP, top), " · ".join(words), INK, font)
    top += CAPTION
    query = thumbnails.picture(int(exemplars.query[row.exemplar]))
    _draw_instance(sheet, query, GAP, top, QUERY)
    bag, witness = exemplars.bag(row.exemplar), exemplars.bag_witness(row.exemplar)
    for number, place in enumerate(row.places):
        left = 2 * GAP + (1 + number % ACROSS) * (CELL + GAP)
        down = top + number // ACROSS * (CELL + GAP)
        frame = WITNESS if witness is not None and witness[place] else None
        _draw_instance(sheet, thumbnails.picture(int(bag[place])), left, down, frame)


def _draw_instance(sheet: Image.Image, picture: Image.Image, left: int, top: int, frame: str | None) -> None:
    scale = CELL / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    # A small picture is enlarged pixel by pixel, a large one made smaller smoothly.
    resampling = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    box = (left + (CELL - size[0]) // 2, top + (CELL - size[1]) // 2)
    sheet.paste(picture.resize(size, resampling).convert("RGB"), box)
    pen = ImageDraw.Draw(sheet)
    if frame is None:
        pen.rectangle((left - 1, top - 1, left + CELL, top + CELL), outline=LINE)
    else:
        edges = (left - FRAME, top - FRAME, left + CELL + FRAME - 1, top + CELL + FRAME - 1)
        pen.rectangle(edges, outline=frame, width=FRAME)
