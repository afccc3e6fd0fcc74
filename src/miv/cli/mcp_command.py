"""``miv mcp``: the tools of ``miv`` for assistants that speak the Model Context Protocol."""

from pathlib import Path
from typing import Annotated

from typer import Option

from miv.cli.app import app


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
