"""``POST /v1/check``: an answer against its sources, sentence by sentence."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from miv.checking import check
from miv.checking.sources import read_answer, read_sources
from miv.service.answer_bodies import CheckAnswer
from miv.service.api_document import json_body
from miv.service.refusals import RefusedRequest, refusals
from miv.service.request_bodies import CHECK_EXAMPLE, CheckRequest
from miv.service.request_reading import in_thread, read_json
from miv.service.running_service import model_of, service_of
from miv.service.service_settings import Limits

router = APIRouter(prefix="/v1/check", tags=["check"])


@router.post(
    "",
    response_model=CheckAnswer,
    responses=refusals(404, 413, 415, 422, 503),
    openapi_extra=json_body(CheckRequest, CHECK_EXAMPLE),
)
async def check_answer(request: Request) -> JSONResponse:
    """Is each sentence of an answer backed by the sources, and by which of their sentences?"""
    asked = await read_json(request, CheckRequest)
    model = model_of(request, asked.model, to_check=True)
    limits = service_of(request).limits
    sources = await in_thread(_checked, asked, limits)

    def checked() -> dict[str, Any]:
        found = check(
            asked.answer, sources, verifier=model.verifier, citations=asked.citations, most_pairs=limits.pairs
        )
        return {**found.document(), "verifier": model.name}

    return JSONResponse(await model.run(checked, len(asked.answer)))


def _checked(asked: CheckRequest, limits: Limits) -> dict[str, str]:
    """The sources by name, if they and the answer are within the limits; the texts are never names of files."""
    if asked.citations > limits.citations:
        raise RefusedRequest(422, f"citations is {asked.citations}. Expected at most {limits.citations}.")
    sources = {one.name: one.text for one in asked.sources}
    if len(sources) != len(asked.sources):
        raise RefusedRequest(422, "Two sources have the same name. Give each its own.")
    longest = max(map(len, [asked.answer, *sources.values()]))
    if longest > limits.characters:
        raise RefusedRequest(413, f"A text has {longest:,} characters. Expected at most {limits.characters:,}.")
    claims = sum(sentence.is_claim for sentence in read_answer(asked.answer))
    evidence = sum(sentence.is_evidence for source in read_sources(sources) for sentence in source.sentences)
    if claims * evidence > limits.pairs:
        raise RefusedRequest(
            413,
            f"The answer has {claims:,} sentences and the sources {evidence:,}. Expected at most {limits.pairs:,} "
            "pairs of them: check the answer in parts, or give fewer sources.",
        )
    return sources
