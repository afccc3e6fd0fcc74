"""Write one API page per public module: a summary table of its `__all__`, then each name in full.

A name that several modules export is described once, at the module whose path is shortest; the other tables link there.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import get_args

import miv

INDEX = """# API reference

One page per package. The names that most people need can be imported from `miv` itself; the other pages follow the
folders of the source. A name that is not listed here is private and may change in any release.

```{{toctree}}
:maxdepth: 1

{pages}
```
"""


def public_modules() -> list[ModuleType]:
    """Every package that declares `__all__`, the whole package first, and each module of `miv.interop`."""
    found = [miv]
    for module in pkgutil.walk_packages(miv.__path__, "miv."):
        is_room = module.ispkg and module.name != "miv.cli"  # the command line describes itself: `miv --help`
        if is_room or module.name.startswith("miv.interop."):
            imported = importlib.import_module(module.name)
            if getattr(imported, "__all__", None):
                found.append(imported)
    return found


def public_names(module: ModuleType) -> list[str]:
    """What a module exports, without names such as `__version__`."""
    return sorted(name for name in module.__all__ if not name.startswith("_"))


def described_at(modules: list[ModuleType]) -> dict[int, str]:
    """Where each object is described, by its identity."""
    places: dict[int, str] = {}
    for module in sorted(modules, key=lambda one: (one.__name__.count("."), one.__name__)):
        for name in public_names(module):
            places.setdefault(id(getattr(module, name)), f"{module.__name__}.{name}")
    return places


def page(module: ModuleType, places: dict[int, str]) -> str:
    """The page of a module in reStructuredText, which is what autodoc writes."""
    title = f"``{module.__name__}``"
    lines = [title, "=" * len(title), "", f".. automodule:: {module.__name__}", "   :no-members:", ""]
    lines += [".. autosummary::", ""]
    descriptions = []
    for name in public_names(module):
        value = getattr(module, name)
        place = places[id(value)]
        is_here = place == f"{module.__name__}.{name}"
        if inspect.isclass(value) or inspect.isroutine(value):
            lines.append(f"   {name}" if is_here else f"   ~{place}")
        if is_here:
            descriptions += _description(place, value)
    return "\n".join([*lines, "", *descriptions])


def _description(path: str, described: object) -> list[str]:
    if inspect.isclass(described):
        return [f".. autoclass:: {path}", "   :members:", "   :show-inheritance:", ""]
    if inspect.isroutine(described):
        return [f".. autofunction:: {path}", ""]
    return [f".. py:data:: {path.rpartition('.')[2]}", "", *(f"   - {line}" for line in _contents(described)), ""]


def _contents(constant: object) -> list[str]:
    """What a constant holds. Autodoc would show the docstring of its type instead, such as that of `dict`."""
    if isinstance(constant, dict):
        return [f"``{key}``: {_plain(value)}" for key, value in constant.items()]
    items = constant if isinstance(constant, Iterable) else get_args(constant)
    return [f"``{getattr(item, 'name', item)}``" for item in items]


def _plain(text: object) -> str:
    """A text without the signs that mean something in reStructuredText."""
    return re.sub(r"([*|`_])", r"\\\1", str(text))


def write(folder: Path) -> None:
    """Write the index and all pages. What did not change keeps its time, so that Sphinx need not read it again."""
    modules = public_modules()
    places = described_at(modules)
    pages = {f"{module.__name__}.rst": page(module, places) for module in modules}
    pages["index.md"] = INDEX.format(pages="\n".join(module.__name__ for module in modules))
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def missing_names(described: Iterable[str]) -> list[str]:
    """The public names that are not among those that the site describes."""
    places = described_at(public_modules())
    return sorted(set(places.values()) - set(described))
