"""The frame of every page: one file with inline style and script, and a policy that blocks everything else."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from miv import __version__
from miv.errors import MIVError


def whole_page(title: str, body: str, style: str, script: str = "", data: str = "") -> str:
    """Return a page as text; ``title`` is plain text, ``body`` and ``data`` (an element for the script) are HTML."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; {scripts}base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n"
        f"<body>{body}"
        f'<footer><p class="note">Written by miv {escape(__version__)}. One file; it makes no network requests.</p>'
        f"</footer>{data}{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def page_part(name: str) -> str:
    """Return a style sheet or script of the package."""
    return files("miv.evaluation").joinpath("page_files", name).read_text(encoding="utf-8")


def check_page_name(out: Path) -> None:
    """Raise an error for a page that does not end in .html."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise MIVError(f"The page {out} ends in {out.suffix!r}. Expected a name that ends in .html.")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# The letter, colour and dashes that identify a model on the page.

NONE = '<span class="none">–</span>'  # a missing figure


def letter(number: int) -> str:
    """A to Z, then A2 to Z2, and so on.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A2')
    """
    return chr(65 + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def style(number: int) -> str:
    """The CSS class with the colour and, for lines, the dashes."""
    return f"m{number % 10}"  # .m0 to .m9 in report.css; letters distinguish more models


def badge(number: int, name: str = "") -> str:
    """The letter on its colour, and the model's name if given."""
    made = f'<span class="badge {style(number)}" aria-hidden="true">{letter(number)}</span>'
    return f"{made} {escape(name)}" if name else made


def legend(names: Iterable[str]) -> str:
    """The letter and colour of each model."""
    return f'<ul class="legend">{"".join(f"<li>{badge(n, name)}</li>" for n, name in enumerate(names))}</ul>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, wide: bool = True) -> str:
    """A table with HTML cells; the first column names the row, the others hold numbers."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    # A table wider than the screen scrolls, and its title stays in place. The script makes it focusable while it can
    # scroll.
    return (
        f'<p class="title">{escape(caption)}</p><div class="scroll" data-label="{escape(caption)}">'
        f'<table aria-label="{escape(caption)}"{"" if wide else " class=narrow"}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def picture(content: bytes, words: str) -> str:
    """An SVG file as a part of the page; ``words`` describe it."""
    address = f"data:image/svg+xml;base64,{base64.b64encode(content).decode('ascii')}"
    return f'<figure class="chart"><img alt="{escape(words)}" src="{address}"></figure>'
