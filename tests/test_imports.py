"""Where imports may stand. ``lint-imports`` checks their order; this checks that few hide inside functions."""

import ast
from pathlib import Path

import miv

PACKAGE = Path(miv.__file__).parent
# Commands start fast because each imports what it needs when it runs. A classifier imports Lightning only in `fit`, and
# `miv.train` when it is called, because a plain install has no Lightning.
# An exemplar set imports its readers late, as they make exemplar sets.
MAY_IMPORT_LATE = (
    "cli/",
    "data/exemplar_set.py",
    "data/set_folder.py",
    "interop/sklearn.py",
    "workflows/train_workflow.py",
)
NEED_PYARROW = ("miv.evaluation.prediction_files", "miv.io.parquet")  # which a plain install lacks too


def late_imports(source: str) -> list[int]:
    """The lines, inside functions, that import from this package."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    inside = [node for function in functions for node in ast.walk(function)]
    named = [(node.lineno, node.module or "") for node in inside if isinstance(node, ast.ImportFrom)]
    named += [(node.lineno, alias.name) for node in inside if isinstance(node, ast.Import) for alias in node.names]
    own = {(line, module) for line, module in named if module.split(".")[0] == "miv"}
    return sorted(line for line, module in own if module not in NEED_PYARROW)


def test_late_imports_are_found() -> None:
    assert late_imports(
        "import miv\ndef f():\n    import re\n    from miv.bags import Bags\n    import miv.data\n"
    ) == [4, 5]


def test_modules_import_this_package_at_their_top() -> None:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    found = {name: late_imports(path.read_text()) for name, path in paths.items() if late_imports(path.read_text())}
    assert {name: lines for name, lines in found.items() if not name.startswith(MAY_IMPORT_LATE)} == {}
