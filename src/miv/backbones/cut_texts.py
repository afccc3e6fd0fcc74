"""Says how many texts were too long for the encoder, once for each set of texts."""

import warnings
from collections.abc import Sequence

from miv.backbones import Backbone
from miv.data import InstancePool
from miv.errors import MIVWarning

_MOST_REMEMBERED = 1000
_seen: set[tuple[str, tuple[int | None, ...]]] = set()  # pools that were counted, by content and length


def warn_of_cut_texts(backbone: Backbone, pools: Sequence[InstancePool]) -> None:
    """Warn once of the texts of some pools that are longer than the encoder reads."""
    if backbone.kind != "text":
        return
    new = {(pool.fingerprint, backbone.instance_shape): pool for pool in pools}
    new = {key: pool for key, pool in new.items() if key not in _seen}
    if len(_seen) > _MOST_REMEMBERED:  # a service sees new texts all day
        _seen.clear()
    _seen.update(new)
    cut = sum(backbone.count_cut(pool.values) for pool in new.values())
    if cut:
        warnings.warn(
            f"{cut:,} of {sum(map(len, new.values())):,} texts have more than {backbone.instance_shape[-1]} tokens; "
            "what comes after these is not read. To read more, train with a higher max_tokens "
            "(--backbone-options max_tokens=256), which takes longer.",
            MIVWarning,
            stacklevel=2,
        )
