"""torchvision's MobileNetV2 as a folder for ``hf:``: the same features as a plain network with its layout."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("transformers")
from tools.mobilenet_folder import convert

# Expansion, channels, repeats and stride of the blocks, as in the paper of MobileNetV2.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def convolution(into: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out), nn.ReLU6())


class Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = into * expansion
        wider = [] if expansion == 1 else [convolution(into, inner)]
        deep = convolution(inner, inner, 3, stride, inner)
        self.conv = nn.Sequential(*wider, deep, nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))
        self.adds = stride == 1 and into == out

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.conv(images)
        return images + changed if self.adds else changed


def plain_network() -> nn.Module:
    layers: list[nn.Module] = [convolution(3, 32, 3, 2)]
    steps = [(out, stride if i == 0 else 1, wide) for wide, out, count, stride in BLOCKS for i in range(count)]
    for (into, _, _), (out, stride, wide) in pairwise([(32, 1, 1), *steps]):
        layers.append(Block(into, out, stride, wide))
    network = nn.Module()
    network.features = nn.Sequential(*layers, convolution(320, 1280))
    return network.eval()


def test_the_folder_has_the_features_of_the_file() -> None:
    torch.manual_seed(0)
    plain = plain_network()
    for name, value in plain.state_dict().items():
        if "running" in name:  # statistics that matter
            value.uniform_(0.5, 1.5)
    weights = {**plain.state_dict(), "classifier.1.weight": torch.zeros(1000, 1280)}
    images = torch.randn(2, 3, 64, 96)
    with torch.no_grad():
        expected = plain.get_submodule("features")(images).mean(dim=(2, 3))
        features = convert(weights).eval()(pixel_values=images).pooler_output
    assert expected.std() > 0
    torch.testing.assert_close(features.flatten(1), expected)


def test_weights_of_another_network_are_refused() -> None:
    with pytest.raises(SystemExit, match="do not fit"):
        convert({"conv1.weight": torch.zeros(64, 3, 7, 7)})
