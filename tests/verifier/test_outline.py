"""Loading a verifier does not import torch's compiler."""

import subprocess
import sys

import pytest

import miv
from miv.verifier.network import Verifier
from miv.verifier.saving import outlining


def test_loading_imports_no_compiler() -> None:
    code = """
import sys
import miv
from miv.verifier.saving import outlining
from miv.verifier.network import Verifier

Verifier.from_pretrained("miv/digits")
for pooling in miv.list_poolings():
    for start in ("similar", "paper"):
        with outlining():
            Verifier(pooling, channels=8, start=start)
        if "torch._dynamo" in sys.modules:
            sys.exit(f"{pooling} {start}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("pooling", miv.list_poolings())
def test_an_outline_has_the_shapes_of_the_verifier(pooling: str) -> None:
    with outlining():
        outline = Verifier(pooling, channels=8)
    verifier = Verifier(pooling, channels=8)
    shapes = {name: tensor.shape for name, tensor in verifier.state_dict().items()}
    assert {name: tensor.shape for name, tensor in outline.state_dict().items()} == shapes
    assert all(tensor.is_meta for tensor in outline.state_dict().values())
