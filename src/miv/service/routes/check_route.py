"""``POST /v1/check``: an answer against its sources, sentence by sentence."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from miv.checking.answer_check import TooManyPairs, check_sentences
from miv.checking.checked_answer import Source
from miv.checking.sentences import Sentence
from miv.checking.sources import read_answer, read_sources
from miv.errors import warnings_heard
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
    answer, sources, told = await in_thread(_split, asked, limits)

    def checked() -> dict[str, Any]:
        with warnings_heard() as heard:
            try:
                found = check_sentences(
                    answer, sources, verifier=model.verifier, citations=asked.citations, most_pairs=limits.pairs
                )
            except TooManyPairs as error:
                raise RefusedRequest(413, str(error)) from error
        return {**found.document(), "verifier": model.name, "warnings": [*told, *heard]}

    return JSONResponse(await model.run(checked, len(asked.answer)))


def _split(asked: CheckRequest, limits: Limits) -> tuple[list[Sentence], tuple[Source, ...], list[str]]:
    """The sentences of the answer, the sources, and warnings, if the texts are within the limits.

    The texts are never names of files.
    """
    if asked.citations > limits.citations:
        raise RefusedRequest(422, f"citations is {asked.citations}. Expected at most {limits.citations}.")
    sources = {one.name: one.text for one in asked.sources}
    if len(sources) != len(asked.sources):
        raise RefusedRequest(422, "Two sources have the same name. Give each its own.")
    longest = max(map(len, [asked.answer, *sources.values()]))
    if longest > limits.characters:
        raise RefusedRequest(413, f"A text has {longest:,} characters. Expected at most {limits.characters:,}.")
    with warnings_heard() as heard:
        return read_answer(asked.answer), read_sources(sources), heard
