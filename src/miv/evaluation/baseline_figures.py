"""The figures of the plain methods, by split, and the file that keeps them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.evaluation.evaluation import TITLES
from miv.files.json import finite_number, read_json_object, write_json
from miv.runtime import aligned_table

FORMAT = "miv-reference"
CHOSEN_ON = "validation"
_REMEDY = "`miv train DATA --resume` with the command of the run writes it again."


@dataclass(frozen=True)
class Figures:
    """The figures of one method on one split; ``None`` if a figure does not exist.

    Args:
        auroc: AUROC of the bags; ``None`` if all labels are the same.
        i_auroc: AUROC of the instances of positive bags; ``None`` if witnesses are unknown.
        i_ap: average precision of the same instances.
    """

    auroc: float | None
    i_auroc: float | None
    i_ap: float | None


COLUMNS = tuple(one.name for one in fields(Figures))


@dataclass(frozen=True)
class Baselines:
    """The figures of the plain methods.

    Args:
        splits: by split and method, such as ``splits["test"]["nearest"].auroc``.
        backbone: source of the features of all methods but the fixed ones; ``None`` without features.
        strength: the C of the logistic regression, chosen on train; ``None`` if it could not be fitted.
        standardised: whether the features are vectors, standardised by the means and deviations of train.

    >>> plain = Baselines({"validation": {"nearest": Figures(0.7, None, None), "mean": Figures(0.6, None, None)}})
    >>> plain.best
    'nearest'
    """

    splits: Mapping[str, Mapping[str, Figures]]
    backbone: str | None = None
    strength: float | None = None
    standardised: bool = False

    @property
    def best(self) -> str | None:
        """The method with the highest AUROC on validation, the first on ties; ``None`` if none has an AUROC."""
        return self.best_of(self.splits.get(CHOSEN_ON, ()))

    def best_of(self, methods: Iterable[str]) -> str | None:
        """The best of some methods, likewise."""
        rows = self.splits.get(CHOSEN_ON, {})
        measured = {name: rows[name].auroc for name in methods if name in rows and rows[name].auroc is not None}
        return max(measured, key=lambda name: measured[name] or 0.0, default=None)

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "format": FORMAT,
            "version": 1,
            "backbone": self.backbone,
            "strength": self.strength,
            "standardised": self.standardised,
            "best": self.best,
            "splits": {split: {name: asdict(one) for name, one in rows.items()} for split, rows in self.splits.items()},
        }

    def save(self, path: Path | str) -> None:
        """Write a JSON file atomically."""
        write_json(Path(path), self.document())

    @classmethod
    def load(cls, path: Path | str) -> "Baselines":
        """Read and check the output of ``save``."""
        path = Path(path)
        document = read_json_object(path, _REMEDY)
        if document.get("format") != FORMAT or document.get("version") != 1:
            raise MIVError(f'{path} has no "format": "{FORMAT}" of version 1. {_REMEDY}')
        try:
            read = {
                split: {name: _figures(one) for name, one in rows.items()} for split, rows in document["splits"].items()
            }
        except (AttributeError, KeyError, TypeError, MIVError) as error:
            raise MIVError(f"{path} does not contain figures by split and method ({error}). {_REMEDY}") from error
        backbone, strength = document.get("backbone"), document.get("strength")
        standardised = document.get("standardised") is True  # runs of 0.1 do not say
        return cls(read, None if backbone is None else str(backbone), strength, standardised)


def _figures(given: Mapping[str, Any]) -> Figures:
    shown = {name: given[name] for name in COLUMNS}
    return Figures(**{n: None if v is None else finite_number(n, v, low=0.0, high=1.0) for n, v in shown.items()})


# The reference as a text table, alone or with a verifier.


def print_table(title: str, rows: Mapping[str, Figures]) -> None:
    """One row per method on standard output; ``*`` marks the best of each column."""
    headings = ["method", *(TITLES[column] for column in COLUMNS)]
    table = aligned_table(headings, [[name, *cells] for name, cells in marked(rows).items()])
    print(f"{title}\n\n{table}\n* best of its column\n")


def marked(rows: Mapping[str, Figures]) -> dict[str, list[str]]:
    """The figures as text, with ``*`` for the best of each column and ``–`` for missing ones.

    >>> marked({"nearest": Figures(0.7, 0.9, None), "mean": Figures(0.6, 0.9, None)})
    {'nearest': ['0.7000 *', '0.9000 *', '–'], 'mean': ['0.6000  ', '0.9000 *', '–']}
    """
    best = {
        column: max((value for one in rows.values() if (value := getattr(one, column)) is not None), default=None)
        for column in COLUMNS
    }
    return {name: [_cell(getattr(one, column), best[column]) for column in COLUMNS] for name, one in rows.items()}


def _cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f} {'*' if value == best else ' '}"
