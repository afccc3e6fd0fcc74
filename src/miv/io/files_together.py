"""Replace several files of a folder together, so that a kill at any moment leaves either all old or all new files.

The new files are first written to a temporary folder inside. Renaming that folder decides: before it the old files
count, after it the new ones. They are then moved into place one by one; after a kill, the next reader finishes this.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from miv.errors import MIVError
from miv.io.temporary_names import SAVED, name_beneath, new_folder, remove_tree, with_ending
from miv.io.whole_files import flush, flush_tree, said_plainly

_NAME = "files"
_REMOVED = ".removed."  # prefix of an empty file that stands for one to remove


@contextmanager
def files_together(folder: Path, keep: Iterable[str] = (), remove: Iterable[str] = ()) -> Iterator[Path]:
    """Yield an empty temporary folder; if the block succeeds, its files replace those of the same name in ``folder``.

    Args:
        folder: where the files go; created if missing. Other files in it stay.
        keep: names that are not replaced if they exist.
        remove: names that are removed if the block wrote no file of that name.
    """
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        finish_replacing(folder)
        temporary = new_folder(folder / _NAME)
        try:
            yield temporary
            for name in keep:
                if (folder / name).exists():
                    (temporary / name).unlink(missing_ok=True)
            for name in remove:
                if not (temporary / name).exists():
                    (temporary / f"{_REMOVED}{name}").touch()
            flush_tree(temporary)
            temporary.rename(with_ending(temporary, SAVED))
        except BaseException:
            remove_tree(temporary)
            raise
        finish_replacing(folder)


def finish_replacing(folder: Path) -> None:
    """Move files into place that a killed process had completely saved; otherwise do nothing.

    Several processes may do this at once: a file that is gone was moved by another.
    """
    try:
        complete = [path for path in folder.iterdir() if name_beneath(path.name, SAVED) == _NAME and path.is_dir()]
    except OSError:  # whoever reads the folder next says what is wrong with it
        return
    for saved in complete:
        try:
            _move_into(saved, folder)
        except OSError as error:
            raise MIVError(
                f"Saving in {folder} was interrupted, and finishing it failed: {error.strerror or error}. Make the "
                f"folder writable and try again, or move the files in {saved.name} into it."
            ) from error


def _move_into(saved: Path, folder: Path) -> None:
    for path in [path for path in saved.rglob("*") if not path.is_dir()]:
        with suppress(FileNotFoundError):
            if path.name.startswith(_REMOVED):
                (folder / path.name.removeprefix(_REMOVED)).unlink(missing_ok=True)
                path.unlink()
            else:
                target = folder / path.relative_to(saved)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    flush(folder)
    remove_tree(saved)
