"""axe-core, which the package axe-playwright-python brings along."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def serious_findings(page: Any) -> list[str]:
    """What axe-core calls serious or critical on the page as it is now."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("needs axe-playwright-python, which has axe-core")
    page.evaluate((Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("rules => axe.run({runOnly: {type: 'tag', values: rules}})", _RULES)
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:240]}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
