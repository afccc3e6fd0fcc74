"""A server of the Model Context Protocol: assistants check answers, verify bags and search a gallery."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from miv import __version__
from miv.checking.answer_check import VERIFIER
from miv.data.kinds import KINDS
from miv.errors import MIVError, needs_extra
from miv.gallery import Gallery
from miv.interop.rag import Checker, summary
from miv.verifier.network import Verifier

if TYPE_CHECKING:
    from mcp.server import MCPServer

Instance = str | list[float]
INSTRUCTIONS = (
    "Tools that compare a query with a bag of items and name the witnesses, the items that decide. They run on this "
    "machine, without a language model. Probabilities are calibrated; unsure means that a person should look."
)


def create_mcp_server(model: str = VERIFIER, gallery: Path | None = None, folder: Path | None = None) -> "MCPServer":
    """Return a server with the tools ``check_answer``, ``verify`` and, with a gallery, ``search_gallery``.

    Args:
        model: the verifier of ``verify``; it also checks answers if it reads texts, otherwise ``miv/judge`` does.
        gallery: the folder of a gallery.
        folder: where images and other files that tools name must be; by default the working directory.
    """
    with needs_extra("mcp", "miv mcp", "the MCP SDK"):
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations

    root, busy = (folder or Path()).resolve(), Lock()
    archive = None if gallery is None else Gallery.open(gallery)

    @cache
    def verifier() -> Verifier:
        return Verifier.from_pretrained(model)

    @cache
    def checker() -> Checker:
        return Checker(verifier() if verifier().backbone.kind == "text" else VERIFIER)

    @contextmanager
    def one_at_a_time() -> Iterator[None]:
        """The SDK calls tools in threads, and shows the caller only the text of a ToolError."""
        try:
            with busy:
                yield
        except MIVError as error:
            raise ToolError(str(error)) from error

    def check_answer(answer: str, sources: list[str] | dict[str, str], question: str | None = None) -> dict[str, Any]:
        """Check whether each sentence of an answer is backed by source texts, and by which of their sentences.

        Args:
            answer: the text to check, plain or Markdown.
            sources: the texts that the answer should rest on, as a list or by name.
            question: what the answer replies to, so that an answer of a few words is checked together with it.
        """
        with one_at_a_time():
            return summary(checker().check(answer, sources, question))

    def verify(query: Instance, bag: list[Instance]) -> dict[str, Any]:
        """Decide whether a bag contains something of the query's class, and which instances show it.

        Args:
            query: one instance: a text, a file name (images) or a vector, whatever the verifier reads.
            bag: the instances to search, of the same kind.
        """
        with one_at_a_time():
            kind = verifier().backbone.kind
            instances = [_instance(one, kind, root) for one in bag]
            return verifier().verify(_instance(query, kind, root), instances).document()

    def search_gallery(query: Instance, top: int = 10) -> dict[str, Any]:
        """Find the bags of the gallery that most likely hold something of the query's class, with their witnesses.

        Args:
            query: one instance: a text, a file name (images) or a vector, whatever the gallery holds.
            top: maximum number of bags.
        """
        assert archive is not None  # noqa: S101 - only offered with a gallery
        with one_at_a_time():
            kind = archive.verifier.backbone.kind
            return archive.search(_instance(query, kind, root), top).document()

    server = MCPServer("miv", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    tools: list[Callable[..., Any]] = [check_answer, verify, *([] if archive is None else [search_gallery])]
    for tool in tools:
        server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))(tool)
    return server


def _instance(value: Instance, kind: str, root: Path) -> Any:
    """A text or vector as it is; the path of a file only if it is in the folder."""
    if not KINDS[kind].has_form or not isinstance(value, str):
        return value
    path = (root / value).resolve()
    if not path.is_relative_to(root):
        raise MIVError(f"{value} is outside of {root}. Expected a file in this folder.")
    return path
