"""Verifiers made of somebody else's modules: used, saved and loaded, and what is said where that cannot be."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import miv
from miv import Bags, MIVError, Pooling, PoolingOutput, Verifier
from miv.backbones import BACKBONES
from miv.backbones.cache import embed_pool
from miv.poolings import POOLINGS, EuclideanPooling, GatedAttentionPooling


class Brightness(nn.Module):
    """The mean of an image, and its square, times something."""

    kind = "image"
    channels = 2

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(float(factor)))

    def forward(self, images: Tensor) -> Tensor:
        mean = images.mean(dim=(1, 2, 3))
        return torch.stack([mean, mean.square()], dim=1) * self.factor


class MeanPooling(Pooling):
    """The mean of the bag."""

    has_attention = False

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        return PoolingOutput(query, bags.mean(bags.values), None)


@pytest.fixture
def registered() -> Iterator[None]:
    miv.register_backbone("brightness")(Brightness)
    miv.register_pooling("mean")(MeanPooling)
    yield
    del BACKBONES._entries["brightness"], POOLINGS._entries["mean"]


IMAGES = np.random.default_rng(0).integers(0, 256, (4, 5, 5), dtype=np.uint8)


def test_a_module_embeds_in_the_place_of_a_backbone() -> None:
    verifier = Verifier("nearest", backbone=Brightness(2.0))
    images = torch.from_numpy(IMAGES)[:, None].float() / 255
    answer = verifier(images[:1], Bags.from_list([images[1:]]))
    by_hand = Verifier("nearest", channels=2)
    mean = images.mean(dim=(1, 2, 3))
    features = 2 * torch.stack([mean, mean**2], dim=1)
    torch.testing.assert_close(answer.logit, by_hand(features[:1], Bags.from_list([features[1:]])).logit)
    assert verifier.verify(IMAGES[0], IMAGES[1:]).probability == pytest.approx(answer.probability.item(), abs=1e-6)


def test_registered_modules_are_saved_and_loaded(registered: None, tmp_path: Path) -> None:
    verifier = Verifier(MeanPooling(2), Brightness(factor=3.0)).eval()
    verifier.save_pretrained(tmp_path)
    loaded = Verifier.from_pretrained(tmp_path, device="cpu")
    assert loaded.configuration == verifier.configuration
    assert loaded.configuration["backbone_options"] == {"factor": 3.0}
    assert loaded.verify(IMAGES[0], IMAGES[1:]).probability == verifier.verify(IMAGES[0], IMAGES[1:]).probability
    by_name = Verifier("mean", "brightness", backbone_options={"factor": 3.0}, start="paper")
    assert by_name.configuration == verifier.configuration


def test_a_pooling_of_the_package_is_saved_as_if_by_name(tmp_path: Path) -> None:
    pooling = EuclideanPooling(6, heads=3)
    pooling.start_similar()
    verifier = Verifier(pooling, channels=6)
    assert verifier.configuration == Verifier("cap_dba_l2", channels=6, pooling_options={"heads": 3}).configuration
    verifier.save_pretrained(tmp_path)
    query, bags = torch.randn(1, 6), Bags.from_list([torch.randn(3, 6)])
    assert torch.equal(Verifier.from_pretrained(tmp_path)(query, bags).logit, verifier(query, bags).logit)


def test_what_has_no_name_is_not_saved(tmp_path: Path, registered: None) -> None:
    class Other(Brightness):
        pass

    for parts, word in (
        ((MeanPooling(2), Other()), "backbone"),
        ((type("P", (MeanPooling,), {})(2), Brightness()), "pooling"),
    ):
        with pytest.raises(MIVError, match=rf"@miv\.register_{word}\("):
            Verifier(*parts).save_pretrained(tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_an_option_that_json_cannot_hold_is_named(tmp_path: Path, registered: None) -> None:
    backbone = Brightness(np.float32(2))  # type: ignore[arg-type]
    with pytest.raises(MIVError, match="The option factor of Brightness is a float32"):
        Verifier("nearest", backbone).save_pretrained(tmp_path)


def test_loading_what_is_not_registered_says_how(tmp_path: Path, registered: None) -> None:
    Verifier("nearest", Brightness()).save_pretrained(tmp_path)
    entry = BACKBONES._entries.pop("brightness")
    with pytest.raises(MIVError, match=r"There is no backbone 'brightness'.*--import"):
        Verifier.from_pretrained(tmp_path)
    BACKBONES._entries["brightness"] = entry


class Wide(nn.Linear):
    kind = "features"


def test_vectors_pass_a_module_for_vectors(tmp_path: Path) -> None:
    """``verify`` and the cache of features, where vectors are not features yet."""
    torch.manual_seed(0)
    verifier = Verifier("nearest", backbone=Wide(3, 4), channels=4).eval()
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = verifier(torch.from_numpy(vectors[:1]), Bags.from_list([torch.from_numpy(vectors[1:])]))
    assert verifier.verify(vectors[0], vectors[1:]).probability == pytest.approx(expected.probability.item(), abs=1e-6)
    features = embed_pool(verifier.backbone, miv.InstancePool("features", vectors), tmp_path)
    np.testing.assert_allclose(features, verifier.backbone(torch.from_numpy(vectors)).detach().numpy(), atol=1e-6)


def test_what_a_module_keeps_fixed_stays_fixed() -> None:
    module = Wide(3, 4)
    module.bias.requires_grad_(False)
    backbone = Verifier("nearest", backbone=module, channels=4).backbone
    backbone.freeze().unfreeze()
    assert (module.weight.requires_grad, module.bias.requires_grad) == (True, False)


class Outer(nn.Module):
    kind, channels = "features", 3

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, vectors: Tensor) -> Tensor:
        return self.inner(vectors)


class Scaled(nn.Module):
    def __init__(self, factor: Any = 2.0) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("shift", torch.zeros(3), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors * self.factor + self.shift


def _fingerprint(inner: nn.Module) -> str:
    return Verifier("nearest", backbone=Outer(inner)).backbone.fingerprint()


def test_the_fingerprint_follows_inner_modules() -> None:
    class Squared(Scaled):
        def forward(self, vectors: Tensor) -> Tensor:
            return super().forward(vectors) ** 2

    moved = Scaled()
    moved.shift = torch.ones(3)
    different = [Scaled(), Scaled(3.0), Squared(), moved, Scaled(np.ones(3)), Scaled(torch.ones(3))]
    different += [Scaled(torch.relu), Scaled(nn.functional.relu), Scaled({"one": (1, {2})}), Scaled(np.float32(2))]
    assert len({_fingerprint(one) for one in different}) == len(different)
    assert _fingerprint(Scaled(torch.relu)) == _fingerprint(Scaled(torch.relu))
    assert _fingerprint(Scaled()) == _fingerprint(Scaled().eval()) == _fingerprint(Scaled().requires_grad_(False))


def test_an_inner_module_whose_content_is_unknown_has_its_own_fingerprint() -> None:
    verifier = Verifier("nearest", backbone=Outer(Scaled(object())))
    assert _fingerprint(Scaled(object())) != _fingerprint(Scaled(object()))
    assert verifier.backbone.fingerprint() == verifier.backbone.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backbone": Brightness}, r"is the class Brightness. Expected an instance: Brightness\(...\)"),
        ({"backbone": 3}, "backbone is a int. Expected a name, or a torch.nn.Module"),
        ({"backbone": Wide(3, 4)}, "Set self.channels in it, or pass channels"),
        ({"backbone": Brightness(), "channels": 3}, "has 2. Omit channels"),
        ({"backbone": Brightness(), "backbone_options": {"factor": 2}}, "is a module. Omit the options"),
        ({"pooling": nn.Linear(2, 2), "channels": 2}, "subclass of miv.Pooling"),
        ({"pooling": GatedAttentionPooling(3), "channels": 2}, "Create the pooling with channels=2"),
        ({"pooling": GatedAttentionPooling(2), "channels": 2, "start": "similar"}, "starts as 'paper'"),
    ],
)
def test_wrong_parts_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(MIVError, match=words):
        Verifier(**arguments)


def test_wrong_features_and_instances_are_refused() -> None:
    verifier = Verifier("nearest", backbone=nn.Linear(3, 4), channels=5)
    bags = Bags.from_list([torch.randn(2, 3)])
    with pytest.raises(MIVError, match=r"returned torch.float32 \(3, 4\).*Expected float features \(3, 5\)"):
        verifier(torch.randn(1, 3), bags)
    with pytest.raises(MIVError, match='kind = "image"'):
        verifier.verify([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]])
    for query, targets, words in (
        (torch.randn(1, 3), torch.randn(1, 2, 3), "from_padded"),
        (torch.randn(1, 3), [torch.randn(2, 3)], "bags is a list.*from_list"),
        (bags, torch.randn(1, 3), "query is a Bags"),
        (torch.randn(1, 4), bags, "Expected one shape"),
    ):
        with pytest.raises(MIVError, match=words):
            verifier(query, targets)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(MIVError, match="Expected a device of this machine"):
        Verifier.from_pretrained("miv/digits", device=device)


@pytest.mark.parametrize("thing", [3, nn.Linear(2, 2), dict])
def test_only_classes_of_modules_are_registered(thing: Any) -> None:
    with pytest.raises(MIVError, match=r"Expected a subclass of torch\.nn\.Module"):
        miv.register_backbone("never")(thing)
    with pytest.raises(MIVError, match=r"Expected a subclass of miv\.Pooling"):
        miv.register_pooling("never")(thing)


def test_verify_many_takes_bags_and_verify_one_of_them() -> None:
    verifier = Verifier("nearest", channels=2)
    query, bags = torch.randn(2, 2), Bags.from_list([torch.randn(3, 2), torch.randn(1, 2)])
    together = verifier.verify_many(query, bags)
    assert repr(together) == f"Verdicts(2 exemplars, {together.verdict.sum()} yes, threshold 0.500)"
    np.testing.assert_allclose(together.probability, verifier(query, bags).probability.detach().numpy(), atol=1e-6)
    assert verifier.verify(query[1], bags[1]).probability == pytest.approx(together.probability[1], abs=1e-6)
    with pytest.raises(MIVError, match=r"The bag is Bags\(2 bags.*Expected one bag"):
        verifier.verify(query[0], bags)


@miv.register_backbone("stack_of_layers")
class StackOfLayers(nn.Sequential):
    def __init__(self, floors: int) -> None:
        super().__init__(*(nn.Identity() for _ in range(floors)))
        self.channels = 4


def test_a_network_with_a_hundred_thousand_layers_is_refused_whatever_their_number_is_called(tmp_path: Path) -> None:
    Verifier("baseline", backbone=StackOfLayers(2)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["backbone_options"]["floors"] = 100_000
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MIVError, match="a network with more than 10,000 parts"):
        Verifier.from_pretrained(tmp_path)
