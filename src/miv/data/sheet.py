"""The contact sheet: some exemplars on one page, each query next to its bag, witnesses framed."""

import base64
import io
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.atomic import whole_file

# Small pictures of instances: images unchanged, feature vectors as a square of grey cells.

LARGEST_SIDE = 192  # pixels; enough to recognise a signature while fifty exemplars stay a small file


class Thumbnails:
    """Pictures of a pool's instances of kind ``image`` or ``features``."""

    def __init__(self, pool: InstancePool) -> None:
        self.pool = pool

    def picture(self, instance: int) -> Image.Image:
        """The instance as a picture of at most ``LARGEST_SIDE`` pixels per side."""
        values = np.asarray(self.pool.values[instance])
        pixels = values if KINDS[self.pool.kind].has_form else self._cells(values)
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
        return picture

    def data_address(self, instance: int) -> str:
        """The picture as a data URI for an HTML image."""
        file = io.BytesIO()
        self.picture(instance).save(file, "PNG")
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")

    def _cells(self, vector: NDArray[Any]) -> NDArray[np.uint8]:
        side = ceil(sqrt(len(vector)))
        low, high = self._range
        grey = np.zeros(side * side)
        grey[: len(vector)] = (vector.astype(np.float64) - low) / ((high - low) or 1.0)
        return (grey.clip(0, 1) * 255).astype(np.uint8).reshape(side, side)

    @cached_property
    def _range(self) -> tuple[float, float]:
        """The same black and white levels for all vectors, so that they can be compared by eye."""
        some = np.asarray(self.pool.values[:1000], dtype=np.float64)
        low, high = np.quantile(some, [0.01, 0.99])
        return float(low), float(high)


# The contact sheet as one PNG, for images and features.

CELL = 64  # pixels; a picture keeps its proportions inside
GAP = 8
FRAME = 3
ACROSS = 12  # bag members per line
CAPTION = 22
QUERY, WITNESS, LINE, INK, PAPER = "#2456a6", "#d97706", "#d8dbe0", "#1c2026", "#ffffff"


def draw_sheet(sets: dict[str, ExemplarSet], rows: "dict[str, list[SheetRow]]") -> Image.Image:
    """Draw each exemplar as a caption and a band: the query framed in blue, then its bag."""
    for name, exemplars in sets.items():
        if not KINDS[exemplars.pool.kind].is_array:
            raise MIVError(
                f"The set {name!r} holds texts, which need an .html sheet. Choose a name that ends in .html."
            )
    step = CELL + GAP
    band = {id(row): CAPTION + ceil(len(row.places) / ACROSS) * step + GAP for part in rows.values() for row in part}
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


SHOWN_MEMBERS = 24  # of one bag; a longer bag shows how many more there are
SHOWN_REFERENCES = 12
SHOWN_LETTERS = 400  # of one text
MOST_EXEMPLARS = 1000  # more would be slow to open in a browser


@dataclass(frozen=True)
class SheetRow:
    """One exemplar on the sheet: its number, and the shown places in its bag, in order."""

    exemplar: int
    places: NDArray[np.int64]
    left_out: int


def write_contact_sheet(sets: dict[str, ExemplarSet], path: Path, *, exemplars: int = 50, seed: int = 0) -> None:
    """Write ``exemplars`` of all sets, chosen with ``seed``, to one HTML (any kind) or PNG file (images, features)."""
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS}.")
    if path.suffix not in (".html", ".png"):
        raise MIVError(f"The sheet {path} ends in {path.suffix!r}. Expected a name that ends in .html or .png.")
    rows = {}
    shares = np.array_split(np.arange(exemplars), len(sets))
    for number, ((name, one), share) in enumerate(zip(sets.items(), shares, strict=True)):
        chosen = _choose_balanced(one.label, len(share), np.random.default_rng([seed, number]))
        rows[name] = [_row(one, int(exemplar)) for exemplar in chosen]
    sheet = draw_sheet(sets, rows) if path.suffix == ".png" else _page(sets, rows)
    with whole_file(path) as temporary:
        if isinstance(sheet, str):
            temporary.write_text(sheet, encoding="utf-8", errors="replace")
        else:
            sheet.save(temporary, "PNG")


def _choose_balanced(label: NDArray[np.int8], wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Choose positives, then as many negatives; more of one if the other runs out."""
    order = random.permutation(len(label))
    positives, negatives = order[label[order] == 1], order[label[order] == 0]
    positives = positives[: max(-(-wanted // 2), wanted - len(negatives))]
    negatives = negatives[: wanted - len(positives)]
    return np.concatenate([np.sort(positives), np.sort(negatives)])


def _row(exemplars: ExemplarSet, exemplar: int) -> SheetRow:
    """Show the whole bag; for a long bag the witnesses first, then others, in the order of the bag."""
    witness = exemplars.bag_witness(exemplar)
    places = np.arange(len(exemplars.bag(exemplar)))
    if witness is not None:
        places = places[np.argsort(~witness, kind="stable")]
    return SheetRow(exemplar, np.sort(places[:SHOWN_MEMBERS]), max(0, len(places) - SHOWN_MEMBERS))


def _page(sets: dict[str, ExemplarSet], rows: dict[str, list[SheetRow]]) -> str:
    parts = [_HEAD]
    for name, exemplars in sets.items():
        parts.append(f"<h2>{escape(name)}: {len(rows[name])} of {len(exemplars):,} exemplars</h2>")
        thumbnails = Thumbnails(exemplars.pool) if KINDS[exemplars.pool.kind].is_array else None
        parts += [_exemplar(exemplars, row, thumbnails) for row in rows[name]]
    return "\n".join([*parts, "</body></html>\n"])


def _exemplar(exemplars: ExemplarSet, row: SheetRow, thumbnails: Thumbnails | None) -> str:
    label = "positive" if exemplars.label[row.exemplar] else "negative"
    words = [f"exemplar {row.exemplar}", f'<b class="{label}">{label}</b>']
    if exemplars.group is not None:
        words.append(f"group {escape(str(exemplars.group[row.exemplar]))}")
    witness = exemplars.bag_witness(row.exemplar)
    bag = exemplars.bag(row.exemplar)
    marks = ["witness" if witness is not None and witness[place] else "" for place in row.places]
    members = [_instance(exemplars, one, mark, thumbnails) for one, mark in zip(bag[row.places], marks, strict=True)]
    references = exemplars.references(row.exemplar)
    asked = [_instance(exemplars, one, "", thumbnails) for one in references[:SHOWN_REFERENCES]]
    for shown, left_out in ((members, row.left_out), (asked, len(references) - SHOWN_REFERENCES)):
        if left_out > 0:
            shown.append(f'<span class="more">and {left_out} more</span>')
    return (
        f'<section class="{"texts" if thumbnails is None else "pictures"}"><p>{" · ".join(words)}</p>'
        f'<div class="query">{"".join(asked)}</div><div class="bag">{"".join(members)}</div></section>'
    )


def _instance(exemplars: ExemplarSet, instance: int, mark: str, thumbnails: Thumbnails | None) -> str:
    classes = exemplars.pool.classes
    title = f"instance {instance}" + ("" if classes is None else f", class {classes[instance]}")
    names = exemplars.pool.names
    title += "" if names is None or not names[instance] else f", {names[instance]}"
    attributes = f'class="instance {mark}" title="{escape(title)}"'
    if thumbnails is not None:
        return f'<img {attributes} alt="{escape(title)}" src="{thumbnails.data_address(instance)}">'
    text = str(exemplars.pool.values[instance])
    shown = text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS] + "…"
    return f"<span {attributes}>{escape(shown)}</span>"


_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Contact sheet</title>
<style>
:root { color-scheme: light; --query: #2456a6; --witness: #d97706; --line: #d8dbe0; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1c2026; background: #f6f7f9;
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.legend .instance { padding: 0 .5rem; background: #fff; }
section { background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .9rem; margin: .6rem 0; display: grid; grid-template-columns: max-content 1fr;
  gap: .4rem 1rem; align-items: start; }
section p { grid-column: 1 / -1; margin: 0; color: #5a626d; font-size: .85rem; }
.positive { color: #166534; } .negative { color: #9f1239; }
.instance { border: 3px solid transparent; border-radius: 4px; }
.query .instance, .legend .query-mark { border-color: var(--query); }
.witness { border-color: var(--witness); }
.bag { display: flex; flex-wrap: wrap; gap: .3rem; align-items: center; }
.pictures img { height: 64px; min-width: 24px; max-width: 220px; object-fit: contain; background: #eceef1;
  image-rendering: pixelated; box-shadow: 0 0 0 1px var(--line); }
.texts { grid-template-columns: 1fr; } .texts .bag { flex-direction: column; align-items: stretch; }
.texts .instance { display: block; padding: .1rem .5rem; overflow-wrap: anywhere; background: #f6f7f9; }
.texts .query .instance { font-weight: 600; background: #fff; }
.texts .witness { background: #fff7ed; }
.more { color: #5a626d; font-size: .85rem; padding: 0 .5rem; }
</style></head><body>
<h1>Contact sheet</h1>
<p class="legend"><span class="instance query-mark">query</span> <span class="instance witness">witness</span>
The query first, then its bag. Hold the pointer over an instance to read its number and class.</p>
"""
