"""FEVER's development set with given splits: a part of FEVER that needs no dump of Wikipedia."""

from dataclasses import dataclass
from pathlib import Path

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime.progress import Progress
from miv.tasks.fever.claims_task import Claims
from miv.tasks.options import check_whole
from miv.tasks.task_base import register_task

_FILES = ("train.jsonl", "validation.jsonl", "test.jsonl")


@register_task("fever-dev", help="Claims of FEVER's development set with given splits and distractors.")
@dataclass(frozen=True)
class FeverDev:
    """Claims of FEVER's development set, with gold sentences and distractors, from three files of JSON lines.

    Args:
        raw: folder with train.jsonl, validation.jsonl and test.jsonl, in the form of Fool Me Twice without pages.
        round: index of the round; the splits are given, so every round has the same sets.
        seed: random seed; not used either.
    """

    raw: Path = Path("data/fever-dev")
    round: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(0, round=self.round, seed=self.seed)

    def build(self, progress: Progress) -> dict[str, ExemplarSet]:
        """Read the files and build the sets ``train``, ``validation`` and ``test``."""
        raw = Path(self.raw)
        missing = [name for name in _FILES if not (raw / name).is_file()]
        if missing:
            raise MIVError(
                f"Missing in {raw.absolute()}: {', '.join(missing)}. Expected the three files of claims that "
                "docs/tasks.md describes; name their folder with --raw (raw in Python)."
            )
        train, validation, test = _FILES
        return Claims(raw, train, validation, test, page_field="").build(progress)
