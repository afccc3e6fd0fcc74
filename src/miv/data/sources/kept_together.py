"""Which folders of classes belong together, and which of them hold forgeries of another."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from miv.data.sources.class_folders import ClassFolder
from miv.data.twin_names import twin_names
from miv.errors import MIVError

logger = logging.getLogger(__name__)

SplitFoldersBy = Literal["class", "parent"]


@dataclass(frozen=True)
class KeptTogether:
    """What is kept within one split.

    Args:
        split_by: each ``class``, or each ``parent``.
        pattern: a regular expression; names with the same match, or the same first group, are kept together.
        forgeries: the ending of folders with forgeries; ``001_forg`` is kept with ``001``.
    """

    split_by: SplitFoldersBy = "class"
    pattern: str | None = None
    forgeries: str | None = None

    def __post_init__(self) -> None:
        if self.forgeries is not None and not self.forgeries.strip():
            raise MIVError("The ending of folders with forgeries is empty. Expected a text such as _forg.")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise MIVError(
                    f"--together-by {self.pattern!r} is not a regular expression: {error}. Expected a pattern such as "
                    r"'(\d+)', which keeps folders with the same first number together."
                ) from error

    @property
    def plain(self) -> bool:
        """Whether every class or parent stands alone."""
        return self.pattern is None and self.forgeries is None

    def units(self, folders: Sequence[ClassFolder]) -> list[str]:
        """For each folder, the name of what is kept together."""
        return [self._unit(folder) for folder in folders]

    def imitated(self, folders: Sequence[ClassFolder]) -> dict[str, str]:
        """The class that each class of forgeries imitates; it must be in the same split."""
        if self.forgeries is None:
            return {}
        there = {(folder.split, folder.name) for folder in folders}
        forged = [folder for folder in folders if self._is_forged(folder.name)]
        if not forged:
            names = ", ".join(folder.name for folder in folders[:3])
            raise MIVError(
                f"No folder ends in {self.forgeries!r}; there are {names} and so on. Expected folders such as "
                f"{folders[0].name}{self.forgeries}, or omit --forgeries."
            )
        for folder in forged:
            if (folder.split, self._genuine(folder.name)) not in there:
                raise MIVError(
                    f"{folder.files[0].parent} holds forgeries, and there is no folder {self._genuine(folder.name)} "
                    "beside it. Add the folder of the class that they imitate, or remove them."
                )
        return {folder.name: self._genuine(folder.name) for folder in forged}

    def warn_of_parted_twins(self, split_of: Mapping[str, str]) -> None:
        """Print a warning for classes that differ only by a suffix and are in different splits."""
        parted = [(a, b) for a, b in twin_names(split_of) if split_of[a] != split_of[b]]
        if parted:
            one, other = parted[0]
            logger.warning(
                "%d pairs of classes differ only by a suffix and are in different splits, such as %s (%s) and %s (%s). "
                "If they belong together, use --together-by, or --forgeries.",
                len(parted),
                one,
                split_of[one],
                other,
                split_of[other],
            )

    def _unit(self, folder: ClassFolder) -> str:
        name = folder.parent if self.split_by == "parent" else self._genuine(folder.name)
        if self.pattern is None:
            return name
        match = re.search(self.pattern, name)
        found = None if match is None else match[1 if match.re.groups else 0]
        if not found:
            raise MIVError(
                f"--together-by {self.pattern!r} does not match the folder {name!r}. Expected a match in every name; "
                "rename the folder or change the pattern."
            )
        return found

    def _is_forged(self, name: str) -> bool:
        return self.forgeries is not None and name.endswith(self.forgeries) and name != self.forgeries

    def _genuine(self, name: str) -> str:
        return name[: -len(self.forgeries)] if self.forgeries is not None and self._is_forged(name) else name
