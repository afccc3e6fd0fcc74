"""What makes the many exports of these tests faster, and changes nothing in the files."""

from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def _operators_are_listed_once() -> Iterator[None]:
    """The exporter reads the source of the same 500 operators anew for every file, a third of its time."""
    pytest.importorskip("onnxscript")
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration")
    with pytest.MonkeyPatch.context() as patched:
        if hasattr(registration, "onnxscript_apis"):  # not public, so another version may lack it
            listed = registration.onnxscript_apis.get_torchlib_ops
            patched.setattr(registration.onnxscript_apis, "get_torchlib_ops", cache(listed))
        yield
