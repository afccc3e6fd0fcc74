"""The JSON bodies of answers, for the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel, Field


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
    kind: Literal["image", "text", "features"]
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


class WitnessAnswer(BaseModel):
    """An instance that explains the verdict."""

    index: int
    score: float


class VerdictAnswer(BaseModel):
    """The document of ``Verdict``, with the size of the bag."""

    verdict: bool
    decision: Literal["yes", "no", "unsure"]
    probability: float
    threshold: float
    lower_threshold: float | None
    witnesses: list[WitnessAnswer]
    witnesses_by: str
    shares: list[float] | None
    attention: list[float] | None
    scores: list[float] | None
    nearly_whole_sets: float | None
    reason: str | None
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
    kind: Literal["image", "text", "features"]
    query: Any = None
    bag: list[Any] | None = None
    answer: str | None = None
    sources: list[dict[str, str]] | None = None


class CheckedSentenceAnswer(BaseModel):
    """A sentence of the answer."""

    text: str
    paragraph: int
    outcome: Literal["supported", "unsure", "unsupported", "not checked"]
    probability: float | None
    citations: list[int]
    nearest: list[int]
    probabilities: list[float]
    words_read: int | None
    item: str


class CitationAnswer(BaseModel):
    """A source sentence that is a witness."""

    number: int
    source: str
    sentence: int
    text: str
    line: int


class SourceAnswer(BaseModel):
    """A source, and its number of sentences."""

    name: str
    sentences: int


class CheckAnswer(BaseModel):
    """The document of ``miv check --json``, with warnings."""

    verifier: str
    goal: str
    supported_from: float
    unsupported_below: float
    counts: dict[str, int]
    sentences: list[CheckedSentenceAnswer]
    citations: list[CitationAnswer]
    nearest: list[CitationAnswer]
    sources: list[SourceAnswer]
    warnings: list[str] = Field(description="What a reader should know, such as a source that was left out.")
