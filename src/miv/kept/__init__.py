"""What is kept of a bag, by pooling, so that a further query costs one pass over it."""

from typing import TYPE_CHECKING

from miv.kept.cross_attention import CrossAttentionForm
from miv.kept.kept_form import KeptForm as KeptForm
from miv.kept.kept_form import PreparedQueries as PreparedQueries
from miv.kept.plain_forms import BagVectorForm, BestTargetForm, FeatureForm
from miv.poolings import (
    BaselinePooling,
    BidirectionalLSTMPooling,
    CrossAttentionPooling,
    EuclideanPooling,
    GatedAttentionPooling,
    ManhattanPooling,
    MINetPooling,
    MultiheadAttentionPooling,
    MultiplicativePooling,
    NearestPooling,
    VarianceExcitedPooling,
)

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_CROSS_ATTENTION = {EuclideanPooling, ManhattanPooling, MultiplicativePooling, VarianceExcitedPooling}
_WITHOUT_QUERY = {GatedAttentionPooling, MINetPooling, BidirectionalLSTMPooling}


def form_of(verifier: "Verifier") -> KeptForm:
    """The kept form of a verifier's pooling; a pooling that it does not know, or a subclass, keeps features."""
    pooling = verifier.pooling
    kind = type(pooling)
    if isinstance(pooling, CrossAttentionPooling) and pooling.position is not None:
        return FeatureForm(verifier)  # a key depends on its place, so one key per instance is not enough
    if kind in _CROSS_ATTENTION:
        return CrossAttentionForm(verifier)
    if kind in (BaselinePooling, NearestPooling):
        return BestTargetForm(verifier, by_cosine=kind is NearestPooling)
    if kind in _WITHOUT_QUERY or (kind is MultiheadAttentionPooling and pooling.seeds == 1):
        return BagVectorForm(verifier)
    return FeatureForm(verifier)
