"""Look at the first instances before the long work, so that nothing is written if the verifier cannot read them."""

from itertools import islice
from pathlib import Path

import numpy as np

from miv.backbones.features import Features
from miv.data import InstancePool
from miv.errors import MIVError
from miv.inference.exemplar_rows import REQUIRED, exemplar_rows
from miv.inference.given_instances import KIND_WORDS, GivenPlaces
from miv.inference.named_instances import instances_of
from miv.inference.verifying import Verifying
from miv.io.table_cells import parse_id
from miv.io.table_records import read_records

_REMEDY = "Give the verifier that was trained on such a set."


def check_first_exemplar(table: Path, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the first exemplar of a table without ids."""
    verifier = verifying.verifier
    records = islice(read_records(table, REQUIRED), 1)
    for row in exemplar_rows(records, table.parent, None, verifier.backbone.kind, verifier.query_kind, []):
        places = GivenPlaces([row.place])
        if verifier.query_backbone is None:
            for one in row.query:
                verifying.check(one.instance, places.query(0))
        verifying.check(row.bag[0].instance, places.member(0, 0))


def check_first_instance(table: Path, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the first row of a table of instances by id."""
    for place, record in islice(read_records(table, ["id"]), 1):
        parse_id(record["id"], place)
        for one in instances_of(record, table.parent, verifying.verifier.backbone.kind, place):
            verifying.check(one.instance, f"{place}: the instance")
        return
    raise MIVError(f"{table}: no rows. Expected one row per instance.")


def check_pool(folder: Path, pool: InstancePool, verifying: Verifying) -> None:
    """Raise an error unless the verifier can read the instances of a set."""
    backbone = verifying.verifier.backbone
    if pool.kind != backbone.kind:
        raise MIVError(
            f"{folder} is a set of {KIND_WORDS[pool.kind]}s, and the verifier reads {KIND_WORDS[backbone.kind]}s. "
            f"{_REMEDY}"
        )
    if isinstance(backbone, Features) and pool.values.shape[1] != backbone.channels:
        raise MIVError(
            f"The vectors in {folder} have {pool.values.shape[1]} numbers, and the verifier reads vectors of "
            f"{backbone.channels}. {_REMEDY}"
        )
    is_colour = pool.kind == "image" and pool.values.ndim == 4
    if is_colour and verifying.verifier.instances is None and backbone.instance_shape[:1] == (1,):
        raise MIVError(f"{folder} is a set of colour images, and the verifier reads grey images. {_REMEDY}")
    verifying.check(np.asarray(pool.values[0]) if pool.kind != "text" else pool.values[0], f"{folder}, instance 0")
