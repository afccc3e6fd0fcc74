"""Samples to try a model with, drawn on demand from the package's synthetic twins, or short texts written for them."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.tasks.digits_twin import Hands
from miv.tasks.signatures_twin import Signer

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


SOURCES = [
    {
        "name": "harbour.txt",
        "text": "Aldmere is a small town on the north coast. Its harbour was built between 1838 and 1842. The "
        "lighthouse at the end of the pier is 31 metres high. It was switched to electric light in 1926. Most of the "
        "fishing boats left after the railway closed in 1964.",
    },
    {
        "name": "festival.txt",
        "text": "The herring festival of Aldmere takes place on the first weekend of September. It began in 1951 as a "
        "market for fishermen. About eight thousand visitors came last year. The town hall sells tickets from June. "
        "The orchestra of the school plays on both evenings.",
    },
]
ANSWER = (
    "The harbour of Aldmere was built between 1838 and 1842. Its lighthouse is 31 metres high. The herring festival "
    "has been held since 1951. The castle above the town belongs to a duke."
)
SENTENCES = [part.strip(" .") + "." for one in SOURCES for part in one["text"].split(". ")]
CLAIM = "The lighthouse of Aldmere got electric light in the 1920s."
OTHER_CLAIM = "The castle of Aldmere belongs to a duke."


_BAG = 12
_LARGEST_DIGIT = 40  # pixels


@dataclass(frozen=True)
class Sample:
    """A sample.

    Args:
        id: its name in the address.
        title: what it shows.
        make: returns its query and bag, or its answer and sources, as JSON takes them.
        use: the address that it is for.
    """

    id: str
    title: str
    make: "Callable[[Verifier], dict[str, Any]]"
    use: Literal["verify", "check"] = "verify"


def samples_for(verifier: "Verifier") -> tuple[Sample, ...]:
    """The samples of the kind that a verifier takes: digits for small square images, signatures for others."""
    kind, form = verifier.backbone.kind, verifier.instances
    if kind == "image" and form is not None and (form.height != form.width or form.height > _LARGEST_DIGIT):
        return _SIGNATURES
    return _SAMPLES[kind]


def _digits(witnesses: int, references: int, seed: int, size: int = _BAG) -> "Callable[[Verifier], dict[str, Any]]":
    def make(verifier: "Verifier") -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        hands = Hands.draw(8, rng)
        # The same digit throughout, as in the task of the shipped model; the first writer is the query's.
        writer = np.concatenate([np.zeros(references + witnesses, int), 1 + np.arange(size - witnesses) % 7])
        images = hands.write(writer, np.full(len(writer), 4), 1.0, rng)
        return _exemplar([_picture(image, verifier) for image in images], references, rng)

    return make


def _signatures(witnesses: int, references: int, seed: int) -> "Callable[[Verifier], dict[str, Any]]":
    def make(verifier: "Verifier") -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        signer, *others = (Signer.draw("joined", rng) for _ in range(5))
        own = signer.sign(references + witnesses, 64, 1.0, rng)
        forged = [signer.sign(1, 64, 1.0, rng, forger=other) for other in others]
        foreign = [other.sign(1, 64, 1.0, rng) for other in others]
        images = np.concatenate([own, *forged, *foreign])
        return _exemplar([_picture(image, verifier) for image in images], references, rng)

    return make


def _vectors(witnesses: int, seed: int) -> "Callable[[Verifier], dict[str, Any]]":
    def make(verifier: "Verifier") -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        query = rng.standard_normal(verifier.backbone.channels)
        near = query + 0.1 * rng.standard_normal((witnesses, len(query)))
        far = rng.standard_normal((_BAG - witnesses, len(query)))
        vectors = np.concatenate([query[None], near, far]).round(4).tolist()
        return _exemplar(vectors, 1, rng)

    return make


def _exemplar(instances: list[Any], references: int, rng: np.random.Generator) -> dict[str, Any]:
    """The first instances are the query; the others, in another order, the bag."""
    asked, rest = instances[:references], instances[references:]
    bag = [rest[place] for place in rng.permutation(len(rest))]
    return {"query": asked[0] if references == 1 else asked, "bag": bag}


def _picture(image: NDArray[np.uint8], verifier: "Verifier") -> dict[str, str]:
    """A PNG file in base64, of the size and mode of the verifier's images."""
    picture, form = Image.fromarray(image), verifier.instances
    if form is not None:
        picture = picture.convert(form.mode).resize((form.width, form.height))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return {"image": base64.b64encode(file.getvalue()).decode()}


_SIGNATURES = (
    Sample("signatures", "Signatures: genuine ones among forgeries", _signatures(3, 1, 7)),
    Sample("signatures-references", "Signatures: five references of one signer", _signatures(2, 5, 7)),
)
_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "image": (
        Sample("digits-present", "Digits: three by the writer of the query", _digits(3, 1, 10)),
        Sample("digits-absent", "Digits: none by the writer of the query", _digits(0, 1, 10)),
        Sample("digits-references", "Digits: three references of one writer", _digits(3, 3, 10)),
        Sample("digits-large", "Digits: a bag of 500", _digits(3, 1, 10, 500)),
    ),
    "text": (
        Sample("claim-supported", "A claim with its evidence", lambda _: {"query": CLAIM, "bag": list(SENTENCES)}),
        Sample(
            "claim-unsupported",
            "A claim without its evidence",
            lambda _: {"query": OTHER_CLAIM, "bag": list(SENTENCES)},
        ),
        Sample("answer", "An answer and its sources", lambda _: {"answer": ANSWER, "sources": SOURCES}, "check"),
    ),
    "features": (
        Sample("vectors-present", "Vectors: two near the query", _vectors(2, 7)),
        Sample("vectors-absent", "Vectors: none near the query", _vectors(0, 7)),
    ),
}
