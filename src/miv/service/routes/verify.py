"""``POST /v1/verify`` and ``POST /v1/check``."""

import asyncio
from functools import partial
from itertools import chain
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from miv.checking.answer_check import TooManyPairs, check
from miv.checking.results import Source
from miv.checking.sentences import Sentence
from miv.checking.sources import read_answer, read_sources
from miv.errors import collect_warnings
from miv.service.bodies import CheckAnswer, CheckRequest, VerifyAnswer, VerifyRequest, documented
from miv.service.errors import RefusedRequest
from miv.service.reading import is_several, read_exemplars, read_instances, read_json
from miv.service.settings import Limits
from miv.service.state import model_of, service_of

router = APIRouter()
VERIFY_EXAMPLE = {"model": "runs/vectors", "exemplars": [{"query": [0.1, 0.9], "bag": [[0.2, 0.8], [0.9, 0.1]]}]}
CHECK_EXAMPLE = {
    "answer": "The harbour of Aldmere was built in 1842.",
    "sources": [{"name": "history.txt", "text": "Aldmere is a small town. Its harbour was finished in 1842."}],
}


@router.post("/v1/verify", **documented("verify", VerifyAnswer, 404, body=VerifyRequest, example=VERIFY_EXAMPLE))
async def verify(request: Request) -> JSONResponse:
    """Does each bag hold something of its query's class, and which of its instances show it?"""
    service = service_of(request)
    asked = await read_json(request, VerifyRequest)
    model = model_of(request, asked.model)
    queries: list[Any] = [one.query if is_several(one.query) else [one.query] for one in asked.exemplars]
    instances = list(chain(*queries, *(one.bag for one in asked.exemplars)))
    convert = partial(read_exemplars, model.verifier, service.limits, asked)
    read = await read_instances(request, model, instances, convert)
    verdicts = await model.run(read, read.bytes)
    service.metrics.exemplars.labels(model.name).inc(len(verdicts))
    return JSONResponse({"model": model.name, "verdicts": verdicts})


@router.post("/v1/check", **documented("check", CheckAnswer, 404, body=CheckRequest, example=CHECK_EXAMPLE))
async def check_answer(request: Request) -> JSONResponse:
    """Is each sentence of an answer backed by the sources, and by which of their sentences?"""
    asked = await read_json(request, CheckRequest)
    model = model_of(request, asked.model, to_check=True)
    limits = service_of(request).limits
    answer, sources, told = await asyncio.to_thread(_split, asked, limits)

    def checked() -> dict[str, Any]:
        with collect_warnings() as heard:
            try:
                options: dict[str, Any] = {"question": asked.question, "citations": asked.citations}
                found = check(answer, sources, verifier=model.verifier, most_pairs=limits.pairs, **options)
            except TooManyPairs as error:
                raise RefusedRequest(413, str(error)) from error
        return {**found.document(), "verifier": model.name, "warnings": [*told, *heard]}

    return JSONResponse(await model.run(checked, len(asked.answer), is_long=True))  # a judge reads pairs for seconds


def _split(asked: CheckRequest, limits: Limits) -> tuple[list[Sentence], tuple[Source, ...], list[str]]:
    """The sentences of the answer, the sources, and warnings, if the texts, never names of files, are within limits."""
    if asked.citations > limits.citations:
        raise RefusedRequest(422, f"citations is {asked.citations}. Expected at most {limits.citations}.")
    sources = {one.name: one.text for one in asked.sources}
    if len(sources) != len(asked.sources):
        raise RefusedRequest(422, "Two sources have the same name. Give each its own.")
    longest = max(map(len, [asked.answer, asked.question or "", *sources.values()]))
    if longest > limits.characters:
        raise RefusedRequest(413, f"A text has {longest:,} characters. Expected at most {limits.characters:,}.")
    with collect_warnings() as heard:
        return read_answer(asked.answer), read_sources(sources), heard
