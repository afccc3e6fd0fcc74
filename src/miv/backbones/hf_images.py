"""Images for an encoder from ``transformers``, with global average pooling."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.base import check_images
from miv.backbones.hf_files import first_line, outline_of, read_side_file
from miv.errors import MIVError
from miv.files.images import parse_size
from miv.files.instances import InstanceKind


def checked_numbers(name: str, numbers: object, least: float, most: float, wanted: str, count: int) -> list[float]:
    """Numbers from ``least`` to ``most``, which may come from a file."""
    if not isinstance(numbers, Sequence) or len(numbers) != count:
        raise MIVError(f"{name} is {numbers!r}. Expected {wanted}.")
    if not all(isinstance(number, int | float) and least <= number <= most for number in numbers):
        raise MIVError(f"{name} is {numbers!r}. Expected {wanted}.")
    return [float(number) for number in numbers]


PREPROCESSOR_NAME = "preprocessor_config.json"
# Vision halves of models trained to summarise an image in one vector, which is better than the mean of the patches.
_SUMMED_UP = ("clip_vision_model", "siglip_vision_model", "chinese_clip_vision_model")


class ImageReader:
    """Prepares images as in the encoder's pretraining, and averages its output over the image."""

    kind: InstanceKind = "image"
    instance_dtype = None

    def __init__(self, model: nn.Module, source: str | None, size: object, mean: object, std: object) -> None:
        config: Any = model.config
        if source is not None and not (size and mean and std):
            known = read_side_file(source, source, PREPROCESSOR_NAME) or {}
            size = size or _side_lengths(known.get("crop_size") or known.get("size"))
            mean, std = mean or known.get("image_mean"), std or known.get("image_std")
        if not (size and mean and std):
            sizes = f"image_size is {size}, image_mean {mean} and image_std {std}"
            raise MIVError(f"{sizes}. Expected all three, as backbone_options or in {PREPROCESSOR_NAME}.")
        self.size = parse_size(size) or (0, 0)
        self.mean = checked_numbers("image_mean", mean, -1e6, 1e6, "three numbers", 3)
        self.std = checked_numbers("image_std", std, 1e-6, 1e6, "three numbers above 0", 3)
        self.patch = getattr(config, "patch_size", None)
        self.sums_up = config.model_type in _SUMMED_UP
        is_resized = _is_resized(config, self.size)
        takes_word = "interpolate_pos_encoding" in inspect.signature(model.forward).parameters
        self.words = {"interpolate_pos_encoding": True} if is_resized and takes_word else {}
        self.channels = self._tried(config)
        self.instance_shape = (3, *self.size)

    def options(self) -> dict[str, Any]:
        return {"image_size": list(self.size), "image_mean": self.mean, "image_std": self.std}

    def prepare(self, values: NDArray[Any]) -> Tensor:
        """``(U, H, W)`` or ``(U, H, W, 3)`` uint8 to ``(U, 3, height, width)`` float."""
        images = check_images(values).float() / 255  # (U, 1 or 3, H, W)
        if tuple(images.shape[2:]) != self.size:
            images = functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        mean, std = torch.tensor(self.mean)[:, None, None], torch.tensor(self.std)[:, None, None]
        return (images - mean) / std  # grey is repeated here

    def embed(self, model: nn.Module, instances: Tensor) -> Tensor:
        """``(U, 3, H, W)`` to ``(U, C)``."""
        output = model(pixel_values=instances, **self.words)
        hidden: Tensor = output.last_hidden_state
        if self.sums_up:
            summed_up: Tensor = output.pooler_output  # (U, C)
            return summed_up
        if hidden.ndim == 3:  # a vision transformer: (U, patches, C), perhaps after [CLS] and similar tokens
            patches = (self.size[0] // self.patch) * (self.size[1] // self.patch) if isinstance(self.patch, int) else 0
            return hidden[:, -patches:].mean(dim=1)
        # The pooler of a convolutional network is global average pooling, then the last norm if there is one.
        pooled: Tensor = output.pooler_output  # (U, C) or (U, C, 1, 1)
        return pooled.flatten(start_dim=1)

    def _tried(self, config: Any) -> int:
        """Return the length of the features by embedding an empty image; raise an error for an unsupported size."""
        images = torch.empty(1, 3, *self.size, device="meta")
        try:
            return int(self.embed(outline_of(config), images).shape[1])
        except Exception as error:  # networks fail in different ways
            trained = getattr(config, "image_size", None)
            raise MIVError(
                f"A {config.model_type} does not take images of image_size {self.size} ({first_line(error)}). "
                f"{'Omit image_size' if trained is None else f'It was trained on {trained}'}, or choose another size."
            ) from error


def _is_resized(config: Any, size: tuple[int, int]) -> bool:
    """Return whether a vision transformer with patch positions gets a different size than in training."""
    trained = getattr(config, "image_size", None)
    wanted = (trained, trained) if isinstance(trained, int) else trained
    is_transformer = hasattr(config, "num_attention_heads") and hasattr(config, "patch_size")
    return is_transformer and wanted is not None and tuple(wanted) != size


def _side_lengths(size: Any) -> list[Any] | None:
    """``[height, width]`` from the formats that processors use; a shortest edge counts for both."""
    if isinstance(size, dict):
        return [size.get("height") or size.get("shortest_edge"), size.get("width") or size.get("shortest_edge")]
    return [size, size] if isinstance(size, int) else None
