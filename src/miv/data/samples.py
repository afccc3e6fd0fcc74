"""A few exemplars to try a verifier with: ``samples.json`` of a run, or of a verifier in the package."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from miv.data.exemplars import ExemplarSet
from miv.files.json import check_shape, read_json_object, write_json

_NAME = "samples.json"
_FORMAT = "miv-samples-1"
_REMEDY = "Delete the file to serve the model without samples."
_MOST_TARGETS, _MOST_BYTES = 50, 500_000
_SHAPE = {"id": str, "title": str, "use": str, "answer?": str, "sources?": [{"name": str, "text": str}]}
_WORDS = {1: "holds", 0: "does not hold"}


def save_samples(exemplars: ExemplarSet, split: str, folder: Path) -> None:
    """Store one exemplar of each label, the first with the smallest bag, unless it is large."""
    samples = []
    for label, words in _WORDS.items():
        numbers = np.flatnonzero(exemplars.label == label)
        if len(numbers):
            number = int(numbers[np.argmin(exemplars.bag_sizes[numbers])])
            bag = exemplars.bag(number)
            given = {"bag": [_as_json(exemplars.pool.values[row]) for row in bag[: _MOST_TARGETS + 1]]}
            query = [_as_json(exemplars.pool.values[row]) for row in exemplars.references(number)[:_MOST_TARGETS]]
            given["query"] = query if len(query) > 1 else query[0]
            if len(bag) <= _MOST_TARGETS and len(json.dumps(given)) <= _MOST_BYTES:
                title = f"A bag of the {split} split that {words} the query's class"
                samples.append({"id": f"{split}-{label}", "title": title, "use": "verify", **given})
    write_json(folder / _NAME, {"format": _FORMAT, "samples": samples})


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """The samples in a folder; none if there is no such file."""
    path = folder / _NAME
    if not path.exists():
        return []
    document = read_json_object(path, _REMEDY)
    check_shape(document, {"format": str, "samples": [_SHAPE]}, str(path), _REMEDY)
    return list(document["samples"])


def _as_json(instance: Any) -> Any:
    """An instance as requests have it: a text, a list of numbers, or an image."""
    if isinstance(instance, str):
        return instance
    if instance.dtype != np.uint8:
        return [float(f"{number:.6g}") for number in instance]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(instance)).save(file, "PNG")
    return {"image": base64.b64encode(file.getvalue()).decode()}
