"""The bodies of requests and answers, and the OpenAPI document made of them.

Requests are strict: no number from a text, no unknown field, no NaN.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from miv import __version__
from miv.checking.results import CheckedSentence, Citation
from miv.files.images import Fit
from miv.files.instances import InstanceKind
from miv.verifier.decisions import Decision
from miv.verifier.verdict import Witness, WitnessMethod

# fail_fast: a million wrong items give one error, not a million.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(fail_fast=True, min_length=1, description="The numbers of a vector.")]
Text = Annotated[str, Field(strict=True, min_length=1, description="A text.")]
Label = Annotated[str | None, Field(max_length=300, description="A label to show; never opened as a file.")]
AnyText = Annotated[str, Field(strict=True, description="A text; an empty one is refused.")]


class ErrorDetails(BaseModel):
    """Why a request was refused."""

    status: int = Field(examples=[422])
    message: str = Field(examples=["The bag is empty. Expected at least one instance."])


class ErrorAnswer(BaseModel):
    """The answer to every request that is refused."""

    error: ErrorDetails


class StrictBody(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageInstance(StrictBody):
    """An image, as the base64 of a PNG, JPEG, WebP, BMP, GIF, TIFF, PGM or PPM file."""

    image: str = Field(strict=True, description="Base64 of an image file.")  # if empty, the reader says which one
    name: Label = None


class TextInstance(StrictBody):
    """A text with a name."""

    text: AnyText
    name: Label = None


Instance = Annotated[Vector | AnyText | ImageInstance | TextInstance, Field(union_mode="left_to_right")]
Instances = Annotated[list[Instance], Field(fail_fast=True, min_length=1)]
Query = Annotated[
    Instance | Instances,
    Field(union_mode="left_to_right", description="One instance, or references: known instances of one class."),
]
ModelName = Annotated[str | None, Field(description="A name from /v1/models; not needed if only one fits.")]
Witnesses = Annotated[WitnessMethod | None, Field(description="How to choose witnesses; none skips them.")]
Resize = Annotated[Fit | None, Field(description="How to fit images of another size.")]


class AskedExemplar(StrictBody):
    """A query, or several references, and a bag."""

    query: Query
    bag: Instances


class VerifyRequest(StrictBody):
    """Exemplars to verify."""

    exemplars: Annotated[list[AskedExemplar], Field(fail_fast=True, min_length=1)]
    model: ModelName = None
    witnesses: Witnesses = None
    heads: bool = Field(False, strict=True, description="Whether to return the attention of each head.")
    resize: Resize = None


class GivenSource(StrictBody):
    """A document to check against."""

    name: str = Field(strict=True, min_length=1, max_length=300)
    text: Text


class CheckRequest(StrictBody):
    """An answer and the sources to check it against."""

    answer: Text
    sources: Annotated[list[GivenSource], Field(fail_fast=True)]
    question: str | None = Field(None, min_length=1, description="What the answer replies to, to check short answers.")
    citations: int = Field(3, strict=True, ge=1, description="Maximum number of citations per sentence.")
    model: ModelName = None


class PutBagRequest(StrictBody):
    """The instances of a bag."""

    bag: Instances
    resize: Resize = None


class NewGalleryRequest(StrictBody):
    """A gallery to create."""

    name: str = Field(strict=True, min_length=1, max_length=100)
    model: ModelName = None


class SearchRequest(StrictBody):
    """A query to search a gallery with."""

    query: Query
    top: int = Field(10, strict=True, ge=1, le=1000, description="Number of bags to return.")
    pictures: bool = Field(False, strict=True, description="Whether to return small pictures of the first ten hits.")
    witnesses: Witnesses = None
    resize: Resize = None


class ListedGallery(BaseModel):
    """A gallery."""

    name: str
    model: str | None = Field(description="The model that searches it; null if no served model made it.")
    bags: int
    instances: int
    bytes: int
    problem: str | None = Field(description="Why it cannot be used, and what to do.")


class GalleriesAnswer(BaseModel):
    """All galleries."""

    galleries: list[ListedGallery]


class GalleryAnswer(ListedGallery):
    """A gallery with its counts, and the names of its first bags."""

    names: list[str]
    model_config = ConfigDict(extra="allow")


class PutBagAnswer(BaseModel):
    """A bag that is now in the gallery."""

    name: str
    size: int
    bags: int = Field(description="Number of bags in the gallery.")


class SearchAnswer(BaseModel):
    """The document of ``miv gallery search --json``."""

    model: str
    bags: int
    references: int
    threshold: float
    lower_threshold: float | None
    notes: list[str]
    hits: list[dict[str, Any]]


class ServedImageForm(BaseModel):
    """Size and mode of a model's images; other images are converted to it."""

    height: int
    width: int
    mode: Literal["L", "RGB"]


class ListedSample(BaseModel):
    """A sample to try a model with."""

    id: str
    title: str
    use: Literal["verify", "check"]


class ServedModel(BaseModel):
    """A model."""

    name: str = Field(examples=["miv/digits"])
    about: str | None = Field(description="What it decides, in a sentence of its model card.")
    kind: InstanceKind
    image: ServedImageForm | None
    channels: int | None = Field(description="Length of a vector.")
    pooling: str
    heads: int | None = Field(description="Number of attention heads.")
    calibrated: bool
    threshold: float
    lower_threshold: float | None
    promise: str | None = Field(description="What the operating point promises, in words.")
    can_check: bool
    samples: list[ListedSample]


class ModelsAnswer(BaseModel):
    """All models, and what a request may hold."""

    models: list[ServedModel]
    limits: dict[str, float]
    galleries: bool
    version: str


class VerdictAnswer(BaseModel):
    """The document of ``Verdict``, with the size of the bag."""

    verdict: bool
    decision: Decision
    probability: float
    threshold: float
    lower_threshold: float | None
    witnesses: list[Witness]
    witnesses_by: str
    shares: list[float] | None
    attention: list[float] | None
    scores: list[float] | None
    reason: str | None
    warnings: list[str] = Field(description="What may be wrong with the answer, as sentences.")
    chance_of_error: str = Field(description="How often such an answer is wrong, if that was measured.")
    unlike: Any
    size: int
    matches: list[list[float]] | None = Field(None, description="One row per reference, if there are references.")
    matched_by: list[int] | None = Field(None, description="For each witness, the reference that matches it best.")
    attention_by_head: list[list[float]] | None = Field(None, description="One row per head, if asked for.")


class VerifyAnswer(BaseModel):
    """One verdict per exemplar."""

    model: str
    verdicts: list[VerdictAnswer]


class SampleAnswer(BaseModel):
    """A query and a bag, or an answer and its sources."""

    title: str
    kind: InstanceKind
    query: Any = None
    bag: list[Any] | None = None
    answer: str | None = None
    sources: list[dict[str, str]] | None = None


@dataclass(frozen=True)
class CheckedSentenceAnswer(CheckedSentence):
    """A sentence of the answer; only one of ``citations`` and ``nearest`` has numbers."""

    nearest: tuple[int, ...] = ()


class SourceAnswer(BaseModel):
    """A source, and its number of sentences."""

    name: str
    sentences: int


class CheckAnswer(BaseModel):
    """The document of ``miv check --json``, with warnings."""

    verifier: str
    goal: str
    threshold: float
    lower_threshold: float
    counts: dict[str, int]
    sentences: list[CheckedSentenceAnswer]
    citations: list[Citation]
    nearest: list[Citation]
    sources: list[SourceAnswer]
    warnings: list[str] = Field(description="What a reader should know, such as a source that was left out.")


_BODIES: dict[str, type[BaseModel]] = {}
_REFERENCE = "#/components/schemas/{model}"
_ABOUT = "Multiple instance verification: does a bag hold something of the query's class, and which instances show it?"
OPEN = ("/healthz", "/readyz")  # documented addresses that need no token


def documented(
    tag: str, answer: Any, *statuses: int, body: type[BaseModel] | None = None, example: Any = None
) -> dict[str, Any]:
    """Options of a route: its tag, the class of its answer, the statuses of refusals, and what ``read_json`` reads."""
    options: dict[str, Any] = {"tags": [tag], "response_model": answer}
    if body is not None:
        statuses += (413, 415, 422, 503)
        _BODIES[body.__name__] = body
        reference = {"$ref": _REFERENCE.format(model=body.__name__)}
        content = {"application/json": {"schema": reference, "example": example}}
        options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    refusals = sorted({400, 401, 403, *statuses})  # the first three can always happen
    return {**options, "responses": {status: {"model": ErrorAnswer} for status in refusals}}


def add_api_document(app: FastAPI, *, token: bool) -> None:
    """Make ``/openapi.json`` complete."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title="miv", version=__version__, description=_ABOUT, routes=app.routes)
            _, bodies = models_json_schema([(one, "validation") for one in _BODIES.values()], ref_template=_REFERENCE)
            components = made.setdefault("components", {})
            components["schemas"] = {**bodies.get("$defs", {}), **components.get("schemas", {})}
            if token:
                components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                for path, methods in made["paths"].items():
                    for operation in methods.values():
                        operation["security"] = [] if path in OPEN else [{"token": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI's own documentation does it
