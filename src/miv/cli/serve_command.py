"""``miv serve``, verifiers over HTTP with a page, and ``miv mcp``, the same for assistants."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from miv.cli.app import app
from miv.errors import MIVError, needs_extra

LIMITS = "Limits (see /v1/models for all)"


@app.command("serve")
def serve(
    models: Annotated[list[str], Argument(help="Verifiers: runs, verifier folders, or names such as miv/digits.")],
    host: Annotated[
        str,
        Option(
            help="Address to listen on. Use 0.0.0.0 for all interfaces. Any address except 127.0.0.1 requires a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None, Option(help="File with the token that requests must carry; or set MIV_TOKEN.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        Option(help="Host name that clients use, as in http://NAME:8000. Not needed for IP addresses. Repeatable."),
    ] = None,
    workers: Annotated[int, Option(help="Number of processes; each loads the models.")] = 1,
    threads: Annotated[
        int, Option(help="Processor threads per worker.", show_default="all, divided among the workers")
    ] = 0,
    galleries: Annotated[Path | None, Option(help="Folder with galleries of `miv gallery` to serve.")] = None,
    gallery_bytes: Annotated[int, Option(help="Maximum size of all galleries.", min=1)] = 10_000_000_000,
    pictures: Annotated[
        Path | None, Option(help="Folder of image files that the page may show with the hits of a gallery.")
    ] = None,
    max_bytes: Annotated[int, Option(help="Maximum size of a request.", rich_help_panel=LIMITS)] = 32_000_000,
    max_exemplars: Annotated[int, Option(help="Exemplars per request.", rich_help_panel=LIMITS)] = 256,
    max_instances: Annotated[int, Option(help="Instances per bag.", rich_help_panel=LIMITS)] = 2_000,
    max_characters: Annotated[int, Option(help="Characters per text.", rich_help_panel=LIMITS)] = 100_000,
    max_pixels: Annotated[int, Option(help="Pixels per image.", rich_help_panel=LIMITS)] = 25_000_000,
    max_seconds: Annotated[float, Option(help="Seconds per request.", rich_help_panel=LIMITS)] = 30.0,
    max_waiting: Annotated[int, Option(help="Requests that wait per model.", rich_help_panel=LIMITS)] = 128,
    batching: Annotated[bool, Option("--batching/--no-batching", help="Batch waiting requests.")] = True,
    stop_seconds: Annotated[int, Option(help="Graceful shutdown timeout in seconds.")] = 30,
    log: Annotated[
        Path | None, Option(help="File for the log as lines of JSON, one per request; - is standard error.")
    ] = None,
) -> None:
    """Serve verifiers over HTTP, with a page to try them in a browser.

    Example: miv serve miv/digits
    Example: miv serve miv/evidence runs/letters --host 0.0.0.0 --token-file token.txt --allowed-host miv.example.org
    """
    with needs_extra("serve", "miv serve", "FastAPI and uvicorn"):
        import fastapi  # noqa: F401

    from miv.service.process import run_service
    from miv.service.settings import Limits, ServiceSettings

    limits = partial(Limits, bytes=max_bytes, exemplars=max_exemplars, instances=max_instances, pixels=max_pixels)
    settings = partial(ServiceSettings, host=host, port=port, workers=workers, threads=threads, batching=batching)
    settings = partial(settings, stop_seconds=stop_seconds, log=log)
    run_service(
        settings(
            tuple(models),
            token=_token(token_file),
            allowed_hosts=tuple(allowed_host or ()),
            galleries=galleries,
            gallery_bytes=gallery_bytes,
            pictures=pictures,
            limits=limits(characters=max_characters, seconds=max_seconds, waiting_requests=max_waiting),
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


@app.command("mcp")
def mcp(
    model: Annotated[
        str, Option(help="A run, a verifier folder, or a name on the hub. It checks answers too if it reads texts.")
    ] = "miv/judge",
    gallery: Annotated[Path | None, Option(help="Folder of a gallery; adds the tool search_gallery.")] = None,
    folder: Annotated[
        Path | None, Option(help="Folder of the images that tools may read.", show_default="the working directory")
    ] = None,
) -> None:
    """Serve the tools check_answer, verify and search_gallery over standard input and output.

    An assistant starts this command itself; add it to its MCP servers.

    Example: miv mcp --gallery archive
    """
    from miv.interop.mcp_server import create_mcp_server

    create_mcp_server(model, gallery, folder).run()
