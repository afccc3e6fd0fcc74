"""Every model of the paper, one file each; importing a file here registers its model."""

# Sorted by the paper's order, which is the order of tables.
from miv.poolings.baseline import BaselinePooling  # isort: skip
from miv.poolings.gabmil import GatedAttentionPooling  # isort: skip
from miv.poolings.pma import MultiheadAttentionPooling  # isort: skip
from miv.poolings.msa import SelfAttentionPooling  # isort: skip
from miv.poolings.mi_net import MINetPooling  # isort: skip
from miv.poolings.bi_lstm import BidirectionalLSTMPooling  # isort: skip
from miv.poolings.cap_vema import VarianceExcitedPooling  # isort: skip
from miv.poolings.cap_dba import DistancePooling, EuclideanPooling, ManhattanPooling  # isort: skip
from miv.poolings.cap_ma import MultiplicativePooling  # isort: skip
from miv.poolings.nearest import NearestPooling  # isort: skip
from miv.poolings.maxsim import MaxSimPooling, TokenSimilarity  # isort: skip
from miv.poolings.cap_tokens import CapTokensPooling, MatchedProduct  # isort: skip
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.pooling_base import (
    POOLINGS,
    Pooling,
    PoolingOutput,
    WeightedProduct,
    create_pooling,
    form_of,
    list_poolings,
    register_pooling,
)
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.poolings.stored import Rows, StoredForm, StoredQueries

__all__ = [
    "POOLINGS",
    "AlignedNorm",
    "BaselinePooling",
    "BidirectionalLSTMPooling",
    "CapTokensPooling",
    "CrossAttentionPooling",
    "DistancePooling",
    "EuclideanPooling",
    "GatedAttentionPooling",
    "MINetPooling",
    "ManhattanPooling",
    "MatchedProduct",
    "MaxSimPooling",
    "MultiheadAttentionPooling",
    "MultiplicativePooling",
    "NearestPooling",
    "Pooling",
    "PoolingOutput",
    "Rows",
    "ScaledProduct",
    "SelfAttentionPooling",
    "StoredForm",
    "StoredQueries",
    "TokenSimilarity",
    "VarianceExcitedPooling",
    "WeightedProduct",
    "create_pooling",
    "form_of",
    "list_poolings",
    "register_pooling",
]
