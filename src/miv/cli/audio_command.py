"""``miv audio``: turn recordings into speaker embeddings."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from miv.cli.app import OverwriteOption, app
from miv.files.atomic import refuse_existing
from miv.runtime import RichProgress

audio_app = typer.Typer(help="Turn recordings (wav) into speaker embeddings.", no_args_is_help=True)
app.add_typer(audio_app, name="audio")


@audio_app.command("weights")
def weights(
    out: Annotated[Path, Argument(help="The file to write, such as speaker.safetensors.")],
    source: Annotated[
        Path | None,
        Option(
            "--from",
            help="Resemblyzer's wheel, or the pretrained.pt in it.",
            show_default="download the wheel from PyPI, 16 MB",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Convert the weights of Resemblyzer's speaker encoder to safetensors, once.

    Example: miv audio weights speaker.safetensors
    """
    refuse_existing(out, overwrite=overwrite)

    from miv.backbones.audio import write_speaker_weights

    write_speaker_weights(out, source, RichProgress())
    print(f"Wrote {out} ({out.stat().st_size / 1e6:.1f} MB).")


@audio_app.command("embed")
def embed(
    source: Annotated[Path, Argument(help="A wav file, or a folder of them.")],
    out: Annotated[Path, Option(help="The .npy file to write; for a folder, the folder to write to.")],
    weights: Annotated[
        Path | None,
        Option(
            help="The file that miv audio weights wrote.",
            show_default="speaker.safetensors, else those of Resemblyzer, downloaded once",
        ),
    ] = None,
    whole: Annotated[
        bool, Option("--whole", help="Write one vector per recording, for queries, instead of its windows.")
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the vectors of recordings as .npy files, which all commands read as instances.

    Each recording becomes windows of 1.6 seconds, one every 0.77 seconds; silent windows are left out.

    Example: miv audio embed voices --out vectors
    """
    from miv.backbones.audio import SpeakerEncoder, embed_recordings

    if weights is None and Path("speaker.safetensors").is_file():
        weights = Path("speaker.safetensors")
    encoder = SpeakerEncoder.pretrained(RichProgress()) if weights is None else SpeakerEncoder.load(weights)
    written = embed_recordings(encoder, source, out, whole=whole, overwrite=overwrite, progress=RichProgress())
    print(f"Wrote {len(written)} file{'s' * (len(written) != 1)} to {out}.")
