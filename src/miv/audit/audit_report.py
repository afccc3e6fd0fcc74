"""The audits of several verifiers on the same exemplars, as one document and as tables."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.audit.audit import audit
from miv.audit.audit_tables import markdown_table, tables
from miv.audit.findings import findings
from miv.audit.reasons import Document
from miv.audit.unit_tests import run_unit_tests
from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.io.model_files import hash_of_weights
from miv.io.whole_files import whole_file
from miv.models.verifier import Verifier
from miv.runtime.aligned_table import table_of
from miv.runtime.progress import Progress, SilentProgress

SUFFIXES = (".json", ".md", ".txt")


@dataclass(frozen=True)
class AuditReport:
    """The setup of an audit, and the results of each model.

    Args:
        about: the data and their fingerprint, the split, the seed.
        models: by name, the result of ``audit``, with ``pooling``, ``goal`` and ``threshold`` of the operating point,
            the hash of the ``weights``, and ``unit_tests``.
    """

    about: dict[str, Any]
    models: dict[str, Document]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"about": self.about, "models": self.models, "findings": findings(self.models)}

    def text(self) -> str:
        """Tables for a terminal."""
        blocks = [f"{title}\n\n{table_of(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        return "\n\n".join([heading(self.about, self.models), *blocks, "\n".join(findings(self.models))])

    def markdown(self) -> str:
        """Tables for a page."""
        blocks = [f"## {title}\n\n{markdown_table(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        said = "\n".join(f"- {sentence}" for sentence in findings(self.models))
        top = f"# Audit: {self.about['data']}, {self.about['split']}"
        return "\n\n".join([top, heading(self.about, self.models), f"## Findings\n\n{said}", *blocks]) + "\n"

    def save(self, path: Path) -> None:
        """Write JSON, Markdown or text, depending on the suffix, atomically."""
        check_suffix(path)
        if path.suffix == ".json":
            text = json.dumps(self.document(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        else:
            text = self.markdown() if path.suffix == ".md" else self.text() + "\n"
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def heading(about: dict[str, Any], models: dict[str, Document]) -> str:
    """The audited exemplars, in words."""
    one = next(iter(models.values()))
    counts = f"{one['exemplars']:,} exemplars, {one['positives']:,} positive, {one['mean_bag']:.1f} instances per bag"
    return f"{about['data']}, {about['split']}: {counts}. Seed {about['seed']}."


def audit_models(
    models: dict[str, Verifier],
    exemplars: ExemplarSet,
    about: dict[str, Any],
    *,
    witnesses: str | None = None,
    most: int | None = None,
    unit_tests: bool = True,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit several verifiers, by name, on the same exemplars; poolings with the same options are tested once."""
    progress = progress or SilentProgress()
    found: dict[str, Document] = {}
    tested: dict[str, Document] = {}
    for name, verifier in models.items():
        made_of = verifier.configuration
        point = verifier.operating_point
        model: Document = {"pooling": made_of["pooling"], "goal": point.goal, "threshold": point.threshold}
        model["weights"] = hash_of_weights(verifier.state_dict())
        model |= audit(verifier, exemplars, witnesses=witnesses, most=most, seed=seed, cache=cache, progress=progress)
        if unit_tests:
            pooling, options = made_of["pooling"], made_of["pooling_options"]
            key = json.dumps([pooling, options], sort_keys=True)
            if key not in tested:
                tested[key] = run_unit_tests(pooling, options, seed=seed, progress=progress)
            model["unit_tests"] = tested[key]
        found[name] = model
    return AuditReport({**about, "fingerprint": exemplars.fingerprint, "seed": seed}, found)


def check_suffix(path: Path) -> None:
    """Raise an error for an unknown suffix."""
    if path.suffix not in SUFFIXES:
        raise MIVError(f"{path} ends with {path.suffix!r}. Expected {', '.join(SUFFIXES)}.")
