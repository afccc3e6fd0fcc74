"""Use a verifier written by ``miv export --onnx``. Needs only numpy and onnxruntime, no other file of miv.

Copy this file next to your code:

    from onnx_verifier import OnnxVerifier

    verifier = OnnxVerifier("verifier.onnx")
    answer = verifier.verify(query, bag)  # one instance, and the N instances of a bag
    answer.decision, answer.verdict, answer.probability, answer.witnesses
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

METADATA_KEY, FORMAT = "miv", "miv-onnx"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Answer:
    """The answer for one query and its bag of ``N``.

    Args:
        verdict: whether the bag holds something of the query's class.
        probability: probability of that, calibrated if the verifier is.
        threshold: the verdict is yes if the probability is at least this.
        logit: output of the network.
        witnesses: indices in the bag, in order, may be empty; ``None`` without attention, or a rule for it.
        attention: ``(N,)``, sums to 1, or ``None``.
        lower_threshold: the decision is no below this, and unsure up to the threshold; ``None`` for one threshold.
        unlike_query: whether the query is out of distribution or has no content.
        unlike: indices of the instances of the bag that are.
        withheld: whether there is no yes or no, because the query or every instance of the bag is.
    """

    verdict: bool
    probability: float
    threshold: float
    logit: float
    witnesses: NDArray[np.int64] | None
    attention: NDArray[np.float32] | None
    lower_threshold: float | None
    unlike_query: bool
    unlike: NDArray[np.int64]
    withheld: bool

    @property
    def decision(self) -> str:
        """``yes`` if the verdict is yes; else ``no``, or ``unsure``: between two thresholds, or if withheld."""
        if self.withheld:
            return "unsure"
        if self.verdict:
            return "yes"
        return "no" if self.lower_threshold is None or self.probability < self.lower_threshold else "unsure"


class OnnxVerifier:
    """A verifier from an ONNX file.

    Args:
        path: the file.
        threads: number of threads of ONNX Runtime; 0 lets it choose.
        providers: providers of ONNX Runtime, such as ``["CUDAExecutionProvider"]``; the CPU by default.
    """

    def __init__(
        self, path: str | PathLike[str], threads: int = 0, providers: Sequence[str] = ("CPUExecutionProvider",)
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(fspath(path), options, providers=list(providers))
        self.about = _read_metadata(fspath(path), self.session.get_modelmeta().custom_metadata_map)
        self.shape = tuple(int(side) for side in self.about["shape"])
        self.dtype = np.dtype(np.uint8 if self.about["instances"] == "image" else np.float32)
        self._point = self.about["operating_point"]
        self._names = [output.name for output in self.session.get_outputs()]

    def verify(self, query: ArrayLike, bag: ArrayLike) -> Answer:
        """Verify one query, of ``self.shape``, against its bag ``(N, *self.shape)``."""
        if np.ndim(query) == 1 + len(self.shape):
            raise ValueError(f"The query is {np.shape(query)}. An exported verifier takes one instance {self.shape}.")
        inputs = {"query": self._checked("query", query, 0), "bag": self._checked("bag", bag, 1)}
        outputs = dict(zip(self._names, self.session.run(None, inputs), strict=True))
        logit = float(outputs["logit"])
        # An instance without content is infinitely far from the train instances.
        if any(
            np.isnan(output).any() or (name != "distance" and np.isinf(output).any())
            for name, output in outputs.items()
        ):
            raise ValueError("The network returned NaN or infinity, so there is no verdict. Check the instances.")
        probability = float(scaled(self._point["scaling"], logit))
        accepted = probability >= self._point["threshold"]
        lower = self._point.get("lower_threshold")
        rejected = not accepted if lower is None else probability < lower
        attention = outputs.get("attention")
        witnesses = None
        # A rule calibrated on other shares is not valid for attention.
        if attention is not None and self._point["witness_rule"].get("by", "attention") == "attention":
            decided = is_witness(self._point["witness_rule"], probability, not rejected, attention)
            witnesses = np.flatnonzero(decided)
        beyond = outputs["distance"] > self.about["unlike"]["limit"]
        withheld = bool(beyond[0] or beyond[1:].all())
        return Answer(
            verdict=accepted and not withheld,
            probability=probability,
            threshold=float(self._point["threshold"]),
            logit=logit,
            witnesses=witnesses,
            attention=attention,
            lower_threshold=lower,
            unlike_query=bool(beyond[0]),
            unlike=np.flatnonzero(beyond[1:]),
            withheld=withheld,
        )

    def _checked(self, name: str, values: ArrayLike, extra: int) -> NDArray[Any]:
        array = np.asarray(values)
        if self.dtype == np.float32 and array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        if array.dtype != self.dtype or array.ndim != extra + len(self.shape) or array.shape[extra:] != self.shape:
            wanted = "(N, " + ", ".join(map(str, self.shape)) + ")" if extra else str(self.shape)
            raise ValueError(f"The {name} is {array.dtype} {array.shape}. Expected {self.dtype} {wanted}.")
        if array.size == 0:
            raise ValueError("The bag is empty. Expected at least one instance.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"The {name} contains NaN or infinity. Expected finite features.")
        return np.ascontiguousarray(array)


def scaled(scaling: dict[str, Any], logit: ArrayLike) -> NDArray[np.float64]:
    """The calibrated probability of a logit."""
    z = np.asarray(logit, np.float64)
    name = scaling["name"]
    if name == "temperature":
        z = z / scaling["temperature"]
    elif name == "platt":
        z = scaling["slope"] * z + scaling["offset"]
    elif name != "none":
        raise ValueError(f"There is no scaling {name!r}. The file is from a later miv; use its onnx_verifier.py.")
    small = np.exp(-np.abs(z))  # never overflows
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))


def is_witness(
    rule: dict[str, Any], probability: float, accepted: bool, attention: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """``(N,)`` which instances of one bag are its witnesses."""
    weight = attention.astype(np.float64)
    if rule["name"] == "attention_times_n":
        enough = weight >= min(rule["factor"], len(weight)) / len(weight)
        return np.asarray(enough & accepted)
    if rule["name"] == "conformal":
        return np.asarray(probability * len(weight) * np.maximum(weight, 1e-9) >= rule["threshold"])
    raise ValueError(f"There is no witness rule {rule['name']!r}. Use the onnx_verifier.py of the miv that wrote it.")


def _read_metadata(path: str, metadata: dict[str, str]) -> dict[str, Any]:
    if METADATA_KEY not in metadata:
        raise ValueError(f"{path} was not written by `miv export --onnx`: it has no miv metadata.")
    about: dict[str, Any] = json.loads(metadata[METADATA_KEY])
    if about.get("format") != FORMAT or about.get("format_version") != FORMAT_VERSION:
        version = f"{about.get('format')!r}, version {about.get('format_version')!r}"
        raise ValueError(f"{path} has the format {version}. Use the onnx_verifier.py of the miv that wrote it.")
    point = about.get("operating_point", {})
    _check_number(path, "threshold", point.get("threshold"), 1)
    _check_number(path, "lower threshold", point.get("lower_threshold", 0), point["threshold"])
    _check_number(path, "limit for distances", about.get("unlike", {}).get("limit"), np.inf)
    return about


def _check_number(path: str, name: str, value: Any, most: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= most:  # no comparison with NaN is true
        raise ValueError(f"{path} has the {name} {value!r}. Expected a number from 0 to {most:g}. Export it again.")
