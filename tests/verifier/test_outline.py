"""Loading a verifier does not import torch's compiler."""

import subprocess
import sys


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
