"""The JSON bodies of requests. Everything is strict: no number from a text, no unknown field, no NaN."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from miv.inference.verdict import Asked
from miv.io.image_files import Fit

# fail_fast: a million wrong items give one error, not a million.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(fail_fast=True, min_length=1, description="The numbers of a vector.")]
Text = Annotated[str, Field(strict=True, min_length=1, description="A text.")]
AnyText = Annotated[str, Field(strict=True, description="A text; an empty one is refused.")]


class StrictBody(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageInstance(StrictBody):
    """An image, as the base64 of a PNG, JPEG, WebP, BMP, GIF or TIFF file."""

    image: str = Field(strict=True, description="Base64 of an image file.")  # if empty, the reader says which one
    name: str | None = Field(None, max_length=300, description="A label to show; never opened as a file.")


class TextInstance(StrictBody):
    """A text with a name."""

    text: AnyText
    name: str | None = Field(None, max_length=300, description="A label to show.")


class KeptBag(StrictBody):
    """A bag that the service keeps."""

    kept: str = Field(strict=True, min_length=1, max_length=100, description="The id from POST /v1/bags.")


Instance = Annotated[Vector | AnyText | ImageInstance | TextInstance, Field(union_mode="left_to_right")]
Instances = Annotated[list[Instance], Field(fail_fast=True, min_length=1)]
Query = Annotated[Instance | Instances, Field(union_mode="left_to_right")]
ModelName = Annotated[str | None, Field(description="A name from /v1/models; not needed if only one fits.")]


class AskedExemplar(StrictBody):
    """A query, or several references, and a bag."""

    query: Query = Field(description="One instance, or a list of references: known instances of one class.")
    bag: Annotated[Instances | KeptBag, Field(union_mode="left_to_right", description="The instances of the bag.")]


class VerifyRequest(StrictBody):
    """Exemplars to verify."""

    exemplars: Annotated[list[AskedExemplar], Field(fail_fast=True, min_length=1)]
    model: ModelName = None
    witnesses: Asked | None = Field(None, description="How to choose witnesses; none skips them.")
    heads: bool = Field(False, strict=True, description="Whether to return the attention of each head.")
    resize: Fit | None = Field(None, description="How to fit images of another size.")


class GivenSource(StrictBody):
    """A document to check against."""

    name: str = Field(strict=True, min_length=1, max_length=300)
    text: Text


class CheckRequest(StrictBody):
    """An answer and the sources to check it against."""

    answer: Text
    sources: Annotated[list[GivenSource], Field(fail_fast=True, min_length=1)]
    citations: int = Field(3, strict=True, ge=1, description="Maximum number of citations per sentence.")
    model: ModelName = None


class VerifyForm(StrictBody):
    """One exemplar of image files, as multipart/form-data."""

    query: list[bytes] = Field(description="The image file of the query, or several references.")
    bag: list[bytes] = Field(description="The image files of the bag.")
    model: ModelName = None
    witnesses: Asked | None = None
    heads: bool = False
    resize: Fit | None = None


VERIFY_EXAMPLE: dict[str, Any] = {
    "model": "runs/vectors",
    "exemplars": [{"query": [0.1, 0.9], "bag": [[0.2, 0.8], [0.9, 0.1]]}],
}
CHECK_EXAMPLE: dict[str, Any] = {
    "answer": "The harbour of Aldmere was built in 1842.",
    "sources": [{"name": "history.txt", "text": "Aldmere is a small town. Its harbour was finished in 1842."}],
}
