"""Embed wav files into ``.npy`` files, which every command for feature vectors reads."""

from pathlib import Path

import numpy as np

from miv.audio.speaker_encoder import SpeakerEncoder, wav_files_in
from miv.errors import MIVError
from miv.io.whole_files import refuse_existing, whole_file
from miv.runtime.progress import Progress, SilentProgress


def embed_recordings(
    encoder: SpeakerEncoder,
    source: Path,
    out: Path,
    *,
    whole: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Embed a wav file, or all below a folder, and return the ``.npy`` files written.

    Args:
        encoder: the speaker encoder.
        source: a wav file, or a folder.
        out: for a file, the ``.npy`` file to write; for a folder, a folder that gets the same names and subfolders.
        whole: write one vector ``(256,)`` per recording, for queries, instead of its windows ``(N, 256)``.
        overwrite: replace existing files. Otherwise an existing one is an error, before anything is embedded.
        progress: reports the recordings done.
    """
    pairs = _pairs(source, out)
    for _, target in pairs:
        refuse_existing(target, overwrite=overwrite)
    with (progress or SilentProgress()).step("Embedding recordings", total=len(pairs)) as advance:
        for path, target in pairs:
            vectors = encoder.whole(path) if whole else encoder.windows(path).vectors
            with whole_file(target) as temporary, temporary.open("wb") as file:
                np.save(file, vectors)
            advance(1)
    return [target for _, target in pairs]


def _pairs(source: Path, out: Path) -> list[tuple[Path, Path]]:
    """Each recording and the file to write."""
    if not source.is_dir():
        if out.suffix != ".npy":
            raise MIVError(f"--out is {out}. Expected the name of a .npy file, because {source} is not a folder.")
        return [(source, out)]
    found = list(wav_files_in(source))
    if not found:
        raise MIVError(f"The folder {source} contains no .wav files.")
    return [(path, (out / path.relative_to(source)).with_suffix(".npy")) for path in found]
