"""The report on a folder: open, measure and audit its sets, and show a table or JSON."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from miv.data import SPLITS, ExemplarSet, load_splits
from miv.data.manifest import Manifest
from miv.data.set_folder import is_set
from miv.errors import MIVError
from miv.inspection.leakage import Finding, audit
from miv.inspection.statistics import Distribution, SetStatistics, set_statistics
from miv.runtime.aligned_table import aligned_table

ONE_SET = "set"  # the name of a single set without splits


@dataclass(frozen=True)
class Inspection:
    """The findings about a folder.

    Args:
        folder: the folder.
        sets: its sets by split.
        manifests: the manifest of each set.
        statistics: the statistics of each set.
        findings: the findings of the leakage audit.
    """

    folder: Path
    sets: dict[str, ExemplarSet]
    manifests: dict[str, Manifest]
    statistics: dict[str, SetStatistics]
    findings: list[Finding]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        described = {}
        for name, manifest in self.manifests.items():
            origin = {"builder": manifest.builder, "options": manifest.options, "seed": manifest.seed}
            described[name] = {**origin, **asdict(self.statistics[name])}
        return {
            "folder": str(self.folder),
            "sets": described,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def text(self) -> str:
        """Everything as a text table with one column per set."""
        columns = [_rows(self.manifests[name], self.statistics[name]) for name in self.sets]
        rows = [[cells[0][0], *(value for _, value in cells)] for cells in zip(*columns, strict=True)]
        lines = [str(self.folder), "", aligned_table(["", *self.sets], rows), ""]
        if not self.findings:
            return "\n".join([*lines, "Leakage audit: nothing found."])
        lines.append(f"Leakage audit: {len(self.findings)} findings.")
        for finding in self.findings:
            lines.append(f"- {finding.check} ({finding.where}), {finding.count:,} times: {finding.meaning}.")
            more = "; …" if finding.count > len(finding.examples) else ""
            lines.append(f"  {'; '.join(finding.examples)}{more}")
        return "\n".join(lines)


def open_sets(folder: Path, *, verify: bool = False) -> dict[str, ExemplarSet]:
    """Open one set or a folder of splits."""
    if is_set(folder):
        return {ONE_SET: ExemplarSet.load(folder, verify=verify)}
    if not folder.is_dir():
        raise MIVError(f"There is no folder {folder}. Expected a folder written by `miv data`.")
    if not any((folder / split).is_dir() for split in SPLITS):
        raise MIVError(
            f"{folder} holds neither a set (manifest.json) nor splits ({', '.join(SPLITS)}). "
            "Expected a folder written by `miv data`."
        )
    return load_splits(folder, verify=verify)


def inspect_folder(folder: Path) -> Inspection:
    """Open a set or a folder of splits, check every hash, and measure and audit it."""
    sets = open_sets(folder, verify=True)
    first = {name: exemplars.pool.first_identical() for name, exemplars in sets.items()}
    return Inspection(
        folder=folder,
        sets=sets,
        manifests={name: Manifest.read(folder if name == ONE_SET else folder / name) for name in sets},
        statistics={name: set_statistics(exemplars, first[name]) for name, exemplars in sets.items()},
        findings=audit(sets, first),
    )


def _rows(manifest: Manifest, statistics: SetStatistics) -> list[tuple[str, str]]:
    shape = "×".join(map(str, statistics.shape))
    return [
        ("builder", manifest.builder),
        ("seed", _number(manifest.seed)),
        ("exemplars", _number(statistics.exemplars)),
        ("  positive", f"{statistics.positives:,} ({statistics.positive_share:.1%})"),
        ("  duplicate", _number(statistics.duplicate_exemplars)),
        ("  groups", _number(None if statistics.groups is None else len(statistics.groups))),
        ("instances", _number(statistics.instances)),
        ("  kind", f"{statistics.kind} {shape}".strip()),
        ("  unused", _number(statistics.unused_instances)),
        ("  duplicate", _number(statistics.duplicate_instances)),
        ("  classes", _number(statistics.classes)),
        ("bag entries", _number(statistics.bag_entries)),
        *_spread("in a bag", statistics.bag_size),
        ("witnesses", _number(statistics.witnesses)),
        *_spread("in a positive bag", statistics.witnesses_per_positive),
        *_spread("share of a positive bag", statistics.witness_rate),
    ]


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _spread(label: str, spread: Distribution | None) -> list[tuple[str, str]]:
    middle, ends = f"  {label}: mean (variance)", f"  {label}: min, median, max"
    if spread is None:
        return [(middle, "-"), (ends, "-")]
    return [
        (middle, f"{spread.mean:.3g} ({spread.variance:.3g})"),
        (ends, f"{spread.minimum:.3g}, {spread.median:.3g}, {spread.maximum:.3g}"),
    ]
