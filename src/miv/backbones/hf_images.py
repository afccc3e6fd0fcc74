"""Images for an encoder of ``transformers``: global average pooling of what it sees."""

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from miv.backbones.image_inputs import ImageView
from miv.errors import MIVError
from miv.io.instance_files import InstanceKind

PREPROCESSOR_NAME = "preprocessor_config.json"


class ImageReader:
    """Shows images to the encoder as in its pretraining, and averages over the picture."""

    kind: InstanceKind = "image"
    instance_dtype = None

    def __init__(self, config: Any, source: str | None, size: object, mean: object, std: object) -> None:
        if source is not None and not (size and mean and std):
            known = _read_preprocessor(source)
            size = size or _side_lengths(known.get("crop_size") or known.get("size"))
            mean, std = mean or known.get("image_mean"), std or known.get("image_std")
        if not (size and mean and std):
            raise MIVError(
                f"image_size is {size}, image_mean {mean} and image_std {std}. Expected all three, given as "
                f"backbone_options or in the model's {PREPROCESSOR_NAME}."
            )
        self.view = ImageView.checked(size, mean, std)
        _check_size(config, self.view.size)
        self.channels = _channels(config)
        self.patch = getattr(config, "patch_size", None)
        self.instance_shape = (3, *self.view.size)

    def options(self) -> dict[str, Any]:
        return self.view.options()

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return self.view.prepare(values)

    def embed(self, model: nn.Module, instances: Tensor) -> Tensor:
        """``(U, 3, H, W)`` to ``(U, C)``."""
        output = model(pixel_values=instances)
        hidden: Tensor = output.last_hidden_state
        if hidden.ndim == 3:  # a vision transformer: (U, patches, C), perhaps after [CLS] and its like
            return hidden[:, self.tokens_before(hidden.shape[1]) :].mean(dim=1)
        # The pooler of a convolutional network is global average pooling, and the last norm where there is one.
        pooled: Tensor = output.pooler_output  # (U, C) or (U, C, 1, 1)
        return pooled.flatten(start_dim=1)

    def tokens_before(self, tokens: int) -> int:
        """How many of a transformer's tokens come before those of the picture."""
        if not isinstance(self.patch, int):
            return 0
        height, width = self.view.size
        return max(0, tokens - (height // self.patch) * (width // self.patch))


def _channels(config: Any) -> int:
    sizes = getattr(config, "hidden_sizes", None)
    channels = sizes[-1] if sizes else getattr(config, "hidden_dim", None) or getattr(config, "hidden_size", None)
    if not isinstance(channels, int):
        raise MIVError(
            f"The configuration of this {config.model_type} does not say how many channels its features have."
        )
    return channels


def _check_size(config: Any, size: tuple[int, int]) -> None:
    """Refuse a size for which a vision transformer, with its place for each patch, has no places."""
    trained = getattr(config, "image_size", None)
    wanted = (trained, trained) if isinstance(trained, int) else trained
    is_transformer = hasattr(config, "num_attention_heads") and hasattr(config, "patch_size")
    if is_transformer and wanted is not None and tuple(wanted) != size:
        raise MIVError(
            f"image_size is {size}. Expected {tuple(wanted)}, the only one that a {config.model_type} takes."
        )


def _side_lengths(size: Any) -> list[Any] | None:
    """``[height, width]`` from the several ways in which processors write it; the short edge stands for both."""
    if isinstance(size, dict):
        return [size.get("height") or size.get("shortest_edge"), size.get("width") or size.get("shortest_edge")]
    return [size, size] if isinstance(size, int) else None


def _read_preprocessor(name: str) -> dict[str, Any]:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        path = Path(name) if Path(name).is_dir() else Path(hf_hub_download(name, PREPROCESSOR_NAME)).parent
        known = json.loads((path / PREPROCESSOR_NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, EntryNotFoundError):
        return {}
    except (OSError, ValueError) as error:
        raise MIVError(f"The {PREPROCESSOR_NAME} of hf:{name} cannot be read: {error}") from error
    if not isinstance(known, dict):
        raise MIVError(f"The {PREPROCESSOR_NAME} of hf:{name} is not a JSON object.")
    return known
