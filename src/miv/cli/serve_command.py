"""``miv serve``: verifiers over HTTP, with a page."""

import os
from pathlib import Path
from typing import Annotated

import typer

from miv.cli.app import app
from miv.errors import MIVError, needs_extra

LIMITS = "Limits (see /v1/models for all)"


@app.command("serve")
def serve(
    models: Annotated[
        list[str], typer.Argument(help="Verifiers: runs, verifier folders, or names such as miv/digits.")
    ],
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Use 0.0.0.0 for all interfaces. Any address except 127.0.0.1 requires a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that requests must carry; or set MIV_TOKEN.", show_default=False),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name that clients use, as in http://NAME:8000. Not needed for IP addresses. Repeatable.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of processes; each loads the models.")] = 1,
    threads: Annotated[
        int, typer.Option(help="Processor threads per worker.", show_default="all, divided among the workers")
    ] = 0,
    galleries: Annotated[
        Path | None, typer.Option(help="Folder with galleries of `miv gallery` to serve.", show_default=False)
    ] = None,
    gallery_bytes: Annotated[int, typer.Option(help="Maximum size of all galleries.", min=1)] = 10_000_000_000,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for stored bags.", show_default="a folder in ~/.cache/miv")
    ] = None,
    keep_days: Annotated[float, typer.Option(help="Remove a stored bag after this many days.")] = 7.0,
    keep_bytes: Annotated[
        int, typer.Option(help="Maximum size of all stored bags; the oldest make room for new ones.", min=1)
    ] = 1_000_000_000,
    max_bytes: Annotated[int, typer.Option(help="Maximum size of a request.", rich_help_panel=LIMITS)] = 32_000_000,
    max_exemplars: Annotated[int, typer.Option(help="Exemplars per request.", rich_help_panel=LIMITS)] = 256,
    max_instances: Annotated[int, typer.Option(help="Instances per bag.", rich_help_panel=LIMITS)] = 2_000,
    max_characters: Annotated[int, typer.Option(help="Characters per text.", rich_help_panel=LIMITS)] = 100_000,
    max_pixels: Annotated[int, typer.Option(help="Pixels per image.", rich_help_panel=LIMITS)] = 25_000_000,
    max_seconds: Annotated[float, typer.Option(help="Seconds per request.", rich_help_panel=LIMITS)] = 30.0,
    max_waiting: Annotated[int, typer.Option(help="Requests that wait per model.", rich_help_panel=LIMITS)] = 128,
    batching: Annotated[bool, typer.Option("--batching/--no-batching", help="Batch waiting requests.")] = True,
    stop_seconds: Annotated[int, typer.Option(help="Graceful shutdown timeout in seconds.")] = 30,
) -> None:
    """Serve verifiers over HTTP, with a page to try them in a browser.

    Example: miv serve miv/digits
    Example: miv serve miv/evidence runs/letters --host 0.0.0.0 --token-file token.txt --allowed-host miv.example.org
    """
    with needs_extra("serve", "miv serve", "FastAPI and uvicorn"):
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401

    from miv.service.process import run_service
    from miv.service.settings import Limits, ServiceSettings

    run_service(
        ServiceSettings(
            tuple(models),
            host=host,
            port=port,
            token=_token(token_file),
            allowed_hosts=tuple(allowed_host or ()),
            workers=workers,
            threads=threads,
            batching=batching,
            galleries=galleries,
            gallery_bytes=gallery_bytes,
            keep=keep,
            keep_days=keep_days,
            keep_bytes=keep_bytes,
            stop_seconds=stop_seconds,
            limits=Limits(
                bytes=max_bytes,
                exemplars=max_exemplars,
                instances=max_instances,
                characters=max_characters,
                pixels=max_pixels,
                seconds=max_seconds,
                waiting_requests=max_waiting,
            ),
        )
    )


def _token(file: Path | None) -> str | None:
    """The token of the file, or of the environment."""
    if file is None:
        return os.environ.get("MIV_TOKEN") or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MIVError(f"Could not read the token file {file}: {error}. Expected one line of text.") from error
