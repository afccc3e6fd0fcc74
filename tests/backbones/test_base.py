import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

from miv import MIVError, Verifier
from miv.backbones import Backbone, create_backbone


class Normed(Backbone):
    """A convolution with BatchNorm, as pretrained networks have."""

    kind = "image"
    instance_shape = (1, None, None)
    channels = 2

    def __init__(self, freeze_batch_norm: bool) -> None:
        super().__init__()
        self.freeze_batch_norm = freeze_batch_norm
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5))
        self.train()

    def configuration(self) -> dict[str, Any]:
        return {"freeze_batch_norm": self.freeze_batch_norm}

    def forward(self, instances: Tensor) -> Tensor:
        features: Tensor = self.layers(instances)
        return features.mean(dim=(2, 3))


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def moved(backbone: Backbone) -> set[str]:
    """The names of what one step of training changes."""
    before = weights(backbone)
    learning = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    features = backbone(torch.rand(8, 1, 9, 9))
    if learning:
        optimiser = torch.optim.SGD(learning, lr=1.0)
        features.square().sum().backward()
        optimiser.step()
    return {name for name, tensor in backbone.state_dict().items() if not torch.equal(tensor, before[name])}


CONVOLUTION = {"layers.0.weight", "layers.0.bias"}
BATCH_NORM = {f"layers.1.{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}


def test_fine_tuning_leaves_batch_norm_alone_whoever_calls_train() -> None:
    backbone = Normed(freeze_batch_norm=True)
    nn.Sequential(backbone).train()
    assert moved(backbone) == CONVOLUTION
    backbone.freeze().eval()
    backbone.unfreeze().train()
    assert moved(backbone) == CONVOLUTION


def test_batch_norm_learns_where_it_was_not_pretrained() -> None:
    backbone = Normed(freeze_batch_norm=False).train()
    assert moved(backbone) >= BATCH_NORM


def test_a_frozen_backbone_does_not_move_and_gives_the_same_in_training_mode() -> None:
    backbone = Normed(freeze_batch_norm=False).freeze()
    nn.Sequential(backbone).train()
    assert moved(backbone) == set()
    images = torch.rand(3, 1, 9, 9)
    assert torch.equal(backbone(images), backbone(images))  # no dropout
    assert backbone.frozen
    assert not backbone.unfreeze().frozen
    assert all(parameter.requires_grad for parameter in backbone.parameters())
    assert moved(backbone) >= CONVOLUTION


def test_a_fingerprint_follows_weights_and_configuration() -> None:
    small, other = create_backbone("compact_cnn"), create_backbone("compact_cnn")
    assert small.fingerprint() != other.fingerprint()
    other.load_state_dict(small.state_dict())
    assert small.fingerprint() == other.fingerprint() == small.freeze().eval().fingerprint()
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1e-6
    assert small.fingerprint() != other.fingerprint()
    assert (
        create_backbone("features", channels=2).fingerprint() != create_backbone("features", channels=3).fingerprint()
    )


@given(spec=st.sampled_from(["compact_cnn:small", "hf", "hf:", "features:4", "resnet", ":", ""]))
def test_a_wrong_spec_is_refused(spec: str) -> None:
    with pytest.raises(MIVError, match=r"There is no backbone|Expected '"):
        create_backbone(spec)


def test_a_damaged_backbone_is_never_fetched_when_a_verifier_is_loaded(tmp_path: Path) -> None:
    Verifier("baseline", channels=4).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    whole = config.read_text()
    for spec in ("hf:someone/model",):
        config.write_text(whole.replace('"features"', f'"{spec}"').replace('"channels": 4', '"channels": null'))
        with pytest.raises(MIVError, match=r"does not describe a verifier: backbone_options (lacks|has)"):
            Verifier.from_pretrained(tmp_path)


def test_the_package_needs_no_optional_library() -> None:
    script = (
        "import sys, miv.verifier.network\n"
        "print([name for name in ('transformers', 'torchvision') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
