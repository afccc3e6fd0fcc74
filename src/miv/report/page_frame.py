"""The frame of every page: one file with inline style and script, and a policy that blocks everything else."""

import base64
import hashlib
from html import escape
from importlib.resources import files
from pathlib import Path

from miv import __version__
from miv.errors import MIVError


def whole_page(title: str, body: str, style: str, script: str = "", data: str = "") -> str:
    """Return a page as text.

    Args:
        title: title of the page, as plain text.
        body: its content, as HTML.
        style: its style sheet.
        script: its script, if it has one.
        data: an element with data for the script, as HTML.
    """
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
    return files("miv.report").joinpath("page", name).read_text(encoding="utf-8")


def check_page_name(out: Path) -> None:
    """Raise an error for a page that does not end in .html."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise MIVError(f"The page {out} ends in {out.suffix!r}. Expected a name that ends in .html.")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
