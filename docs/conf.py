"""Settings of the documentation site; `make docs` builds it."""

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

import miv

project = "miv"
author = "The miv developers"
version = release = miv.__version__
html_title = f"miv {release}"
html_show_copyright = False

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",  # the others need data that a reader fetches; their pictures are committed
    "ignore_pattern": r"results\.py",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1_000,
    "first_notebook_cell": "# Needs `pip install 'miv[train,text]'`, and results.py of the folder examples beside it.",
}
html_theme = "furo"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # pages link to headings as GitHub names them

autosummary_generate = False  # `api_pages` writes one page per room, not one per name
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


# `miv reproduce` writes pages that may also be parts of a longer report, so their first heading is of the second level.
suppress_warnings = ["myst.header"]


def link_within_the_site(app: Any, name: str, source: list[str]) -> None:
    """Point links to CONTRIBUTING.md, which GitHub shows, to the page of the site that includes it."""
    source[0] = source[0].replace("](../CONTRIBUTING.md", "](contributing.md")


def skip_methods_of_scikit_learn(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out `set_fit_request` and its kin: scikit-learn makes them, with links into its own documentation."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def check_api(app: Any, environment: Any) -> None:
    """Warn, which ends the build, where the site lacks a public name."""
    for name in api_pages.missing_names(environment.domaindata["py"]["objects"]):
        logging.getLogger("api").warning("%s is public, but the API reference does not describe it.", name)


def setup(app: Any) -> None:
    """Write the pages of the API before Sphinx looks for pages, and show CSV as plain text."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", link_within_the_site)
    app.connect("autodoc-skip-member", skip_methods_of_scikit_learn)
    app.connect("env-check-consistency", check_api)
    api_pages.write(Path(__file__).parent / "api")
