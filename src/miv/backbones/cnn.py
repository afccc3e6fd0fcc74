from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from miv.backbones.base import Backbone, check_images, whole_number
from miv.backbones.descriptors import HistogramOfGradients, to_grey
from miv.backbones.names import register_backbone
from miv.errors import unknown_name

# Side and channels of the first convolution, which halves the image; then channels and stride of each block.
PLANS = {"small": (3, 24, ((48, 2), (96, 2))), "large": (5, 32, ((48, 1), (96, 2), (128, 2)))}
_RELU_GAIN = (2 / (1 - 1 / torch.pi)) ** 0.5  # after it and a ReLU, the variance is again 1


class StandardisedConv(nn.Conv2d):
    r"""A convolution with normalised filters instead of normalised outputs (Brock et al. 2021).

    .. math:: \hat W_i = g_i \, \gamma \, \frac{W_i - \mu_i}{\sqrt{n} \, \sigma_i}

    Mean and deviation of filter :math:`i` are taken over its :math:`n` inputs, and :math:`\gamma` is the gain of a
    ReLU. Unlike with BatchNorm, the features of an image do not depend on its batch.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2)
        self.gain = nn.Parameter(torch.ones(outputs, 1, 1, 1))  # g
        nn.init.normal_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, images: Tensor) -> Tensor:
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, correction=0)
        scale = self.gain * _RELU_GAIN * torch.rsqrt(variance * self.weight[0].numel() + 1e-4)
        return functional.conv2d(images, (self.weight - mean) * scale, self.bias, self.stride, self.padding)


class ConvolutionBlock(nn.Module):
    """Two convolutions with a skip connection; their strength starts low."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = StandardisedConv(inputs, outputs, 3, stride)
        self.second = StandardisedConv(outputs, outputs, 3)
        self.strength = nn.Parameter(torch.tensor(0.2))
        self.stride = stride
        self.short_cut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        beside = images
        if self.stride > 1:  # odd sides keep their last row and column
            beside = functional.avg_pool2d(images, self.stride, ceil_mode=True, count_include_pad=False)
        change = self.second(self.first(images).relu())
        return (self.short_cut(beside) + self.strength * change).relu()


@register_backbone("compact_cnn")
class CompactCNN(Backbone):
    """A small residual network for small grey images, to train from scratch on a CPU.

    The features are the global average over the image or, with a ``grid``, a linear map of the averages over its
    fields, which keeps positions. ``small`` has 96 channels and 0.16 M parameters, ``large`` 128 and 0.44 M.

    Args:
        size: ``small`` or ``large``.
        grid: fields along each side of the image, 1 to 16; 1 is the global average.
        features: length of the features if the grid has more than one field.
        shift: after training, features are the mean over ``(2 shift + 1)²`` copies shifted by up to ``shift`` pixels.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(
        self, size: Literal["small", "large"] = "small", grid: int = 1, features: int = 128, shift: int = 0
    ) -> None:
        super().__init__()
        if size not in PLANS:
            raise unknown_name("compact_cnn of size", size, PLANS)
        self.grid = whole_number("compact_cnn", "grid", grid, 1, 16)
        whole_number("compact_cnn", "features", features, 1, 4096)
        self.shift = whole_number("compact_cnn", "shift", shift, 0, 3)
        kernel, channels, blocks = PLANS[size]
        layers: list[nn.Module] = [StandardisedConv(1, channels, kernel, stride=2), nn.ReLU()]
        for outputs, stride in blocks:
            layers.append(ConvolutionBlock(channels, outputs, stride))
            channels = outputs
        self.layers = nn.Sequential(*layers)
        self.project = nn.Linear(channels * grid**2, features) if grid > 1 else None
        self.channels = channels if self.project is None else features

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return check_images(values, colour=False).float() / 255  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        if self.shift == 0 or (self.training and not self.frozen):
            return self._embed(instances)
        room = functional.pad(instances, [self.shift] * 4)  # (U, 1, H + 2 shift, W + 2 shift)
        height, width = instances.shape[2:]
        steps = range(2 * self.shift + 1)
        places = [(down, right) for down in steps for right in steps]
        copies = [self._embed(room[:, :, down : down + height, right : right + width]) for down, right in places]
        return torch.stack(copies).mean(dim=0)  # (U, C)

    def _embed(self, instances: Tensor) -> Tensor:
        # Channels last is the fastest layout for convolutions on a CPU.
        images = instances.contiguous(memory_format=torch.channels_last)  # (U, 1, H, W)
        maps: Tensor = self.layers(images)  # (U, channels of the last block, H/8, W/8)
        if self.project is None:
            return maps.mean(dim=(2, 3))  # (U, C)
        fields = functional.adaptive_avg_pool2d(maps, self.grid).contiguous()  # (U, ..., grid, grid)
        projected: Tensor = self.project(fields.flatten(1))
        return projected


CELL_SIZE = 6  # small images have no more detail, and it costs a quarter of 12


@register_backbone("hog_cnn")
class HogCNN(Backbone):
    r"""A compact CNN next to a histogram of oriented gradients: it starts as good as the histogram and learns the rest.

    Both are scaled to length 1 and concatenated, so the cosine of two images is a weighted mean of two cosines,

    .. math:: \cos(x, y) = w \cos_{HOG}(x, y) + (1 - w) \cos_{CNN}(x, y),

    with a learned share :math:`w` that starts at one half.

    Args:
        size: size of the network, ``small`` or ``large``.
        grid: as in ``compact_cnn``.
        features: as in ``compact_cnn``.
        shift: as in ``compact_cnn``.
        cells: as in ``hog``.
    """

    kind = "image"
    instance_shape = (1, None, None)

    def __init__(
        self,
        size: Literal["small", "large"] = "small",
        grid: int = 4,
        features: int = 128,
        shift: int = 0,
        cells: int = 5,
    ) -> None:
        super().__init__()
        self.cnn = CompactCNN(size, grid, features, shift)
        self.hog = HistogramOfGradients(cells, CELL_SIZE)
        self.balance = nn.Parameter(torch.zeros(()))  # w is its sigmoid
        self.channels = self.hog.channels + self.cnn.channels

    def prepare(self, values: NDArray[Any]) -> Tensor:
        return to_grey(values)  # (U, 1, H, W), 0 to 1

    def forward(self, instances: Tensor) -> Tensor:
        share = self.balance.sigmoid()
        with torch.no_grad():  # nothing to learn
            histogram = self.hog(instances)
        fixed = functional.normalize(histogram, dim=1, eps=1e-6) * share.sqrt()
        learned = functional.normalize(self.cnn(instances), dim=1, eps=1e-6) * (1 - share).sqrt()
        return torch.cat([fixed, learned], dim=1)  # (U, C)
