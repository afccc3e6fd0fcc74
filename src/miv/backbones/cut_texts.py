"""Warn about texts that are too long for the encoder, once per set of texts."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from miv.backbones import Backbone
from miv.data import InstancePool
from miv.errors import MIVWarning

_MOST_REMEMBERED = 1000
_seen: set[tuple[str, tuple[int | None, ...]]] = set()  # pools already counted, by content and length

_is_told = ContextVar("is_told", default=False)


@contextmanager
def cut_texts_are_told() -> Iterator[None]:
    """Embed without this warning, because the caller gives one in its own words."""
    before = _is_told.set(True)
    try:
        yield
    finally:
        _is_told.reset(before)


def warn_of_cut_texts(backbone: Backbone, pools: Sequence[InstancePool]) -> None:
    """Warn once about texts of these pools that are longer than the encoder reads."""
    if backbone.kind != "text" or _is_told.get():
        return
    new = {(pool.fingerprint, backbone.instance_shape): pool for pool in pools}
    new = {key: pool for key, pool in new.items() if key not in _seen}
    if len(_seen) > _MOST_REMEMBERED:  # a service keeps getting new texts
        _seen.clear()
    _seen.update(new)
    cut = sum(backbone.count_cut(pool.values) for pool in new.values())
    if cut:
        warnings.warn(
            f"{cut:,} of {sum(map(len, new.values())):,} texts have more than {backbone.instance_shape[-1]} tokens; "
            "the rest is ignored. To read more, train with a higher max_tokens "
            "(--backbone-options max_tokens=256), which is slower.",
            MIVWarning,
            stacklevel=2,
        )
