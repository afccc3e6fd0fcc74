"""The contact sheet: some exemplars on one page, each query next to its bag, witnesses framed."""

import base64
import io
from collections.abc import Callable
from html import escape
from importlib.resources import files
from math import ceil, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.data.kinds import KINDS
from miv.data.pool import InstancePool
from miv.errors import MIVError
from miv.files.atomic import whole_file

LARGEST_SIDE = 192  # pixels; enough to recognise a signature while fifty exemplars stay a small file
SHOWN_MEMBERS = 24  # of one bag; a longer bag shows how many more there are
SHOWN_REFERENCES = 12
SHOWN_LETTERS = 400  # of one text
MOST_EXEMPLARS = 1000  # more would be slow to open in a browser


def write_contact_sheet(sets: dict[str, ExemplarSet], path: Path, *, exemplars: int = 50, seed: int = 0) -> None:
    """Write ``exemplars`` of all sets, chosen with ``seed``, to one HTML file."""
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS}.")
    if path.suffix != ".html":
        raise MIVError(f"The sheet {path} ends in {path.suffix!r}. Expected a name that ends in .html.")
    parts = [files("miv.data").joinpath("sheet.html").read_text(encoding="utf-8")]
    shares = np.array_split(np.arange(exemplars), len(sets))
    for number, ((name, split), share) in enumerate(zip(sets.items(), shares, strict=True)):
        chosen = _choose_balanced(split.label, len(share), np.random.default_rng([seed, number]))
        parts.append(f"<h2>{escape(name)}: {len(chosen)} of {len(split):,} exemplars</h2>")
        picture = pictures(split.pool) if KINDS[split.pool.kind].is_array else None
        parts += [_exemplar(split, exemplar, picture) for exemplar in chosen.tolist()]
    with whole_file(path) as temporary:
        temporary.write_text("\n".join([*parts, "</body></html>\n"]), encoding="utf-8", errors="replace")


def _choose_balanced(label: NDArray[np.int8], wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Choose positives, then as many negatives; more of one if the other runs out."""
    order = random.permutation(len(label))
    positives, negatives = order[label[order] == 1], order[label[order] == 0]
    positives = positives[: max(-(-wanted // 2), wanted - len(negatives))]
    negatives = negatives[: wanted - len(positives)]
    return np.concatenate([np.sort(positives), np.sort(negatives)])


def pictures(pool: InstancePool) -> Callable[[int], str]:
    """Return what makes the picture of an instance, as a data URI: an image, or a vector as a square of grey cells."""
    is_image = KINDS[pool.kind].has_form
    # The same black and white levels for all vectors, so that they can be compared by eye.
    low, high = (0.0, 1.0) if is_image else np.quantile(pool.values[:1000].astype(np.float64), [0.01, 0.99])

    def picture(instance: int) -> str:
        pixels = np.asarray(pool.values[instance])
        if not is_image:
            side = ceil(sqrt(len(pixels)))
            grey = np.zeros(side * side)
            grey[: len(pixels)] = (pixels.astype(np.float64) - low) / ((high - low) or 1.0)
            pixels = (grey.clip(0, 1) * 255).astype(np.uint8).reshape(side, side)
        return picture_of(pixels)

    return picture


def picture_of(pixels: NDArray[np.uint8]) -> str:
    """An image ``(H, W)`` or ``(H, W, 3)``, made small, as a data URI."""
    image, file = Image.fromarray(np.ascontiguousarray(pixels)), io.BytesIO()
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _exemplar(exemplars: ExemplarSet, exemplar: int, picture: Callable[[int], str] | None) -> str:
    """The whole bag; of a long bag the witnesses, then others, in the order of the bag."""
    label = "positive" if exemplars.label[exemplar] else "negative"
    words = [f"exemplar {exemplar}", f'<b class="{label}">{label}</b>']
    if exemplars.group is not None:
        words.append(f"group {escape(str(exemplars.group[exemplar]))}")
    bag, references = exemplars.bag(exemplar), exemplars.references(exemplar)
    witness = exemplars.bag_witness(exemplar)
    flags = np.zeros(len(bag), bool) if witness is None else witness
    places = np.sort(np.argsort(~flags, kind="stable")[:SHOWN_MEMBERS])
    members = [_instance(exemplars.pool, bag[place], "witness" * bool(flags[place]), picture) for place in places]
    query = [_instance(exemplars.pool, instance, "", picture) for instance in references[:SHOWN_REFERENCES]]
    for shown, total in ((members, len(bag)), (query, len(references))):
        if total > len(shown):
            shown.append(f'<span class="more">and {total - len(shown)} more</span>')
    return (
        f'<section class="{"texts" if picture is None else "pictures"}"><p>{" · ".join(words)}</p>'
        f'<div class="query">{"".join(query)}</div><div class="bag">{"".join(members)}</div></section>'
    )


def _instance(pool: InstancePool, instance: int, mark: str, picture: Callable[[int], str] | None) -> str:
    title = f"instance {instance}" + ("" if pool.classes is None else f", class {pool.classes[instance]}")
    title += "" if pool.names is None or not pool.names[instance] else f", {pool.names[instance]}"
    attributes = f'class="instance {mark}" title="{escape(title)}"'
    if picture is not None:
        return f'<img {attributes} alt="{escape(title)}" src="{picture(instance)}">'
    text = str(pool.values[instance])
    shown = text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS] + "…"
    return f"<span {attributes}>{escape(shown)}</span>"
