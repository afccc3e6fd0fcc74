"""The command ``miv export``, on verifiers in folders."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from miv import MIVError, Verifier
from miv.cli.app import app

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(app, ["export", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_verifier_is_written_and_says_where_its_loader_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    form = {"kind": "image", "height": 8, "width": 9, "mode": "L"}
    Verifier("cap_dba_l2", "compact_cnn", instances=form).save_pretrained("images")
    said, note = run("images", "--onnx", "verifier.onnx")
    assert said.startswith("Wrote verifier.onnx (")
    loader = Path(note.removeprefix("To use it, copy ").split(" into")[0])
    space: dict[str, object] = {"__name__": "onnx_verifier"}
    exec(compile(loader.read_text(), loader, "exec"), space)
    exported = space["OnnxVerifier"]("verifier.onnx", threads=1)  # type: ignore[operator]
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 9), dtype=np.uint8)
    expected = Verifier.from_pretrained("images").verify(images[0], images[1:])
    answer = exported.verify(images[0], images[1:])
    assert answer.probability == pytest.approx(expected.probability, abs=1e-4)
    assert answer.attention == pytest.approx(expected.attention, abs=1e-4)

    older = Path("verifier.onnx").read_bytes()
    with pytest.raises(MIVError, match="already exists"):
        run("images", "--onnx", "verifier.onnx", "--features-only")
    assert Path("verifier.onnx").read_bytes() == older
    printed, _ = run("images", "--onnx", "verifier.onnx", "--features-only", "--overwrite", "--json")
    assert json.loads(printed)["bag_sizes"][:3] == [1, 2, 200]
    assert Path("verifier.onnx").read_bytes() != older
