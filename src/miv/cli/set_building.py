"""Build sets, save them as splits and describe them: the last step of every command that builds data."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from miv.cli.app import print_json

if TYPE_CHECKING:  # imported only when needed, to keep `miv --help` fast
    from miv.data import ExemplarSet
    from miv.runtime import Progress


class Builder(Protocol):
    """A dataclass of options that builds sets."""

    @property
    def seed(self) -> int:
        """Random seed."""
        ...

    def build(self, progress: "Progress") -> "dict[str, ExemplarSet]":
        """Build the sets by split."""
        ...


def build_and_save(name: str, builder: Builder, out: Path, *, overwrite: bool, json: bool) -> None:
    """Build with a progress bar on standard error, save, and print the splits as a table or JSON."""
    from miv.data import SPLITS, save_splits
    from miv.data.folder import refuse_to_destroy
    from miv.files.tables import require_parquet
    from miv.runtime import RichProgress

    require_parquet()  # fail before the work, not after it
    refuse_to_destroy(out, overwrite=overwrite, splits=SPLITS)
    sets = builder.build(RichProgress())
    options = _plain(dataclasses.asdict(builder))  # type: ignore[call-overload]
    save_splits(sets, out, builder=name, options=options, seed=builder.seed, overwrite=overwrite)
    figures = {split: _figures(exemplars) for split, exemplars in sets.items()}
    if json:
        print_json({"folder": str(out), "builder": name, "options": options, "sets": figures})
    else:
        for split, counts in figures.items():
            listing = "  ".join(f"{count:>9,} {what}" for what, count in counts.items())
            print(f"{split:<10}  {listing}  mean bag {sets[split].bag_sizes.mean():.1f}")
    typer.echo(f"Wrote {out}. To look at it: miv data inspect {out} --sheet sheet.html", err=True)


def _figures(exemplars: "ExemplarSet") -> dict[str, int]:
    figures = {
        "exemplars": len(exemplars),
        "positive": int(exemplars.label.sum()),
        "instances": len(exemplars.pool),
    }
    if exemplars.witness is not None:
        figures["witnesses"] = int(exemplars.witness.sum())
    return figures


def _plain(options: Any) -> Any:
    """Options as plain JSON values."""
    if isinstance(options, dict):
        return {name: _plain(value) for name, value in options.items()}
    return str(options) if isinstance(options, Path) else options
