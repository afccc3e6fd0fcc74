"""The JSON bodies of requests to keep bags and to use galleries, and of their answers."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from miv.inference.verdict import Asked
from miv.io.image_files import Fit
from miv.service.request_bodies import Instances, ModelName, Query, StrictBody


class KeepRequest(StrictBody):
    """A bag to keep."""

    bag: Instances
    model: ModelName = None
    resize: Fit | None = Field(None, description="How to fit images of another size.")


class KeptBagAnswer(BaseModel):
    """A kept bag."""

    id: str = Field(examples=["0123456789abcdef0123456789abcdef"], description="For the bag of /v1/verify.")
    model: str
    size: int
    created: str
    expires: str


class NewGalleryRequest(StrictBody):
    """A gallery to create."""

    name: str = Field(strict=True, min_length=1, max_length=100)
    model: ModelName = None


class PutBagRequest(StrictBody):
    """The instances of a bag."""

    bag: Instances
    resize: Fit | None = Field(None, description="How to fit images of another size.")


class SearchRequest(StrictBody):
    """A query to search a gallery with."""

    query: Query = Field(description="One instance, or a list of references: known instances of one class.")
    top: int = Field(10, strict=True, ge=1, le=1000, description="Number of bags to return.")
    witnesses: Asked | None = Field(None, description="How to choose witnesses; none skips them.")
    prefilter: bool = Field(False, strict=True, description="No effect: every search compares all bags.")
    resize: Fit | None = Field(None, description="How to fit images of another size.")


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
    compared: int
    references: int
    threshold: float
    lower_threshold: float | None
    recall: Any
    notes: list[str]
    hits: list[dict[str, Any]]
