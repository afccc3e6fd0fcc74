"""Every model of the paper, one file each; a new one is registered by its import here."""

# Sorted by the paper's order, which is the order of tables.
from miv.poolings import baseline, gabmil, pma, msa, mi_net, bi_lstm  # noqa: F401, I001
from miv.poolings import cap_vema, cap_dba, cap_ma, nearest  # noqa: F401
from miv.poolings.pooling_base import (
    POOLINGS,
    Pooling,
    PoolingOutput,
    WeightedProduct,
    create_pooling,
    list_poolings,
    register_pooling,
)

__all__ = [
    "POOLINGS",
    "Pooling",
    "PoolingOutput",
    "WeightedProduct",
    "create_pooling",
    "list_poolings",
    "register_pooling",
]
