"""Verdicts without training: a fixed or pretrained encoder, and the target nearest to the query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from miv.backbones import efficientnet
from miv.backbones.hf_files import MINILM, installed_sentence_encoder
from miv.data.kinds import KINDS, kind_of_file
from miv.errors import MIVError
from miv.files.images import Fit, read_image, resize_step
from miv.files.instances import is_file, is_folder, read_vectors_file
from miv.runtime import Progress, SilentProgress
from miv.verifier.network import Verifier
from miv.verifier.table_reading import Named, named_bag, named_query
from miv.verifier.verdict import Verdict, WitnessMethod

VOICE, VECTORS = "voice", "features"
_WAV = ".wav"


@dataclass(frozen=True)
class Encoder:
    """A backbone that works without training.

    Args:
        backbone: its name in ``miv.create_backbone``.
        middle: similarity of the nearest target at which the probability is one half.
        scale: how steeply the probability rises there.
        pooling: what compares targets with the query.
    """

    backbone: str
    middle: float = 0.5
    scale: float = 10.0
    pooling: str = "nearest"


ENCODERS = {
    "efficientnet": Encoder("efficientnet", 0.69, 12.0),
    "hog": Encoder("hog", 0.76, 16.0),
    "hog_colour": Encoder("hog_colour", 0.73, 14.0),
    "minilm": Encoder(f"hf:{MINILM}", 0.52, 6.0),
    "tokens": Encoder(f"tokens:{MINILM}", 0.6, 10.0, "maxsim"),
    "trigrams": Encoder("trigrams", 0.36, 9.0),
    VOICE: Encoder(VECTORS, 0.75, 20.0),
}
"""By the name for ``miv verify --backbone``; ``middle`` and ``scale`` fit one set each, and yours may differ."""


class ZeroShot:
    """Answers by similarity alone. They rank targets well, but their probabilities are not calibrated.

    Args:
        backbone: a name in ``ENCODERS``, another backbone, ``features`` for vectors, or ``auto`` to choose one for the
            query: for a photograph ``efficientnet`` if it is installed, for another image ``hog_colour`` or ``hog``,
            for a text ``minilm`` if it is installed or ``trigrams``, for a recording (wav) ``voice``.
        query: a query, as given.
        progress: reports the download of weights.
    """

    def __init__(self, backbone: str, query: Any, progress: Progress | None = None) -> None:
        self.name = _encoder_for(query) if backbone == "auto" else backbone
        encoder = ENCODERS.get(self.name, Encoder(self.name))
        channels = None
        if self.name == VOICE:
            from miv.backbones.audio import CHANNELS, SpeakerEncoder

            self._speaker, channels = SpeakerEncoder.pretrained(progress or SilentProgress()), CHANNELS
        elif encoder.backbone == VECTORS:
            channels = np.shape(_first_vector(query))[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the projection of tokens is random
            self.verifier = Verifier(encoder.pooling, encoder.backbone, channels).eval()
        if KINDS[self.verifier.backbone.kind].has_form:
            side = getattr(self.verifier.backbone, "image_size", 128)
            form = {"height": side, "width": side, "mode": "RGB", "steps": [resize_step((side, side))]}
            self.verifier = Verifier(
                encoder.pooling, self.verifier.backbone, instances={"kind": "image", **form}
            ).eval()
        with torch.no_grad():
            self.verifier.pooling.similarity.scale.fill_(encoder.scale)  # type: ignore[operator]
            self.verifier.pooling.similarity.intercept.fill_(-encoder.scale * encoder.middle)  # type: ignore[operator]

    def query(self, name: str) -> Any:
        """The instance for a name on the command line."""
        return self._speaker.whole(name) if self.name == VOICE else named_query(name, self.verifier.backbone.kind)

    def bag(self, names: Sequence[str]) -> list[Named]:
        """The instances for names on the command line: of one recording its windows, of several one vector each."""
        if self.name != VOICE:
            return named_bag(list(names), self.verifier.backbone.kind)
        from miv.backbones.audio import recordings_in

        files = [path for name in names for path in (recordings_in(Path(name)) if is_folder(name) else [Path(name)])]
        if len(files) > 1:
            return [Named(str(path), self._speaker.whole(path)) for path in files]
        starts, vectors = self._speaker.timed_windows(files[0])
        return [Named(f"{files[0]} at {start:.1f} s", row) for start, row in zip(starts, vectors, strict=True)]

    def verify(
        self, query: Any, bag: Any, resize: Fit | None = None, witnesses: WitnessMethod | None = None
    ) -> Verdict:
        """As ``Verifier.verify``, with instances in memory or as ``query`` and ``bag`` return them."""
        verdict = self.verifier.verify(query, bag, resize=resize, witnesses=witnesses)
        candidates = () if verdict.query_is_unlike else verdict.witnesses  # nothing is near to a query without content
        others = (warning for warning in verdict.warnings if not warning.startswith("Not calibrated"))
        warnings = ("How often it is wrong is unknown: `miv train` makes a verifier that can be calibrated.", *others)
        return replace(verdict, zero_shot=self.name, witnesses=candidates, warnings=warnings)


def verify(
    query: Any,
    bag: Any,
    *,
    backbone: str = "auto",
    resize: Fit | None = None,
    witnesses: WitnessMethod | None = None,
) -> Verdict:
    """Does the bag hold something of the query's class? Answers without training, and not calibrated.

    Args:
        query: an image, text, vector or recording (wav), as ``Verifier.verify`` takes it; a list is several references.
        bag: several of the same kind, or a folder; a single recording is the bag of its windows.
        backbone: ``efficientnet`` (photographs), ``hog``, ``minilm`` or ``tokens`` (texts), ``voice``, another backbone
            by name, or ``auto``; see ``ZeroShot``.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.

    >>> verdict = verify([1.0, 0.0], [[0.0, 1.0], [1.0, 0.1]])
    >>> verdict.decision, verdict.zero_shot, int(verdict.shares.argmax())
    ('yes', 'features', 1)
    """
    several = isinstance(query, list) and bool(query) and not isinstance(query[0], Real)
    zero = ZeroShot(backbone, query[0] if several else query)
    if zero.name == VOICE:
        query = [zero.query(one) for one in query] if several else zero.query(query)
        bag = [named.instance for named in zero.bag([str(bag)] if isinstance(bag, str | PathLike) else bag)]
    return zero.verify(query, bag, resize, witnesses)


def _encoder_for(query: Any) -> str:
    is_name = isinstance(query, str | PathLike)
    if is_name and str(query).lower().endswith(_WAV):
        return VOICE
    if is_name:
        kind = kind_of_file(str(query)) if is_file(query) else "text"
    else:
        kind = "image" if isinstance(query, Image.Image) or getattr(query, "dtype", None) == np.uint8 else "features"
    if kind == "text":
        return "trigrams" if installed_sentence_encoder() is None else "minilm"
    if kind != "image":
        return VECTORS
    shape = np.shape(read_image(query, colour=None) if is_name else query)
    if len(shape) < 3:
        return "hog"
    return "efficientnet" if efficientnet.suits(shape) else "hog_colour"


def _first_vector(query: Any) -> Any:
    if isinstance(query, str | PathLike) and is_file(query):
        return read_vectors_file(Path(query))[0]
    if isinstance(query, str):
        return named_query(query, VECTORS)
    if not np.size(query):
        raise MIVError("The query is empty. Expected a vector.")
    return query
