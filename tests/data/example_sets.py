"""Small sets of every kind, for the tests of saving and reading."""

import numpy as np

from miv import ExemplarSet, InstancePool


def example_pool(kind: str) -> InstancePool:
    classes = np.array(["Zoë", "Zoë", "Bo", "Bo", "", "李"])
    if kind == "grey":
        return InstancePool("image", np.arange(6 * 12, dtype=np.uint8).reshape(6, 3, 4), classes)
    if kind == "colour":
        return InstancePool("image", np.arange(6 * 36, dtype=np.uint8).reshape(6, 3, 4, 3))
    if kind == "features":
        return InstancePool("features", np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2), classes)
    texts = ["Is the sky blue?", "", "Grün ist das Gras.", "天", "a\0b", "The sky is blue."]
    return InstancePool("text", np.array(texts, dtype=object), classes)


def example_set(kind: str, *, bare: bool = False) -> ExemplarSet:
    return ExemplarSet.from_lists(
        example_pool(kind),
        [0, 1, 2],
        [[1, 2], [3], [5, 4, 0]],
        [1, 0, 1],
        None if bare else [[True, False], [False], [False, True, True]],
        None if bare else ["3", "sieben", "é"],
    )


KINDS = ("grey", "colour", "features", "text")
