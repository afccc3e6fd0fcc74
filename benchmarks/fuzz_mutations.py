"""Random damage to the content of files: to any bytes, and to the values of JSON documents, tables and checkpoints."""

import copy
import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

Mutation = Callable[[bytes, random.Random], bytes]

_DEEP: Any = []
for _ in range(200):
    _DEEP = [_DEEP]
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), -float("inf"), "", " ", "a", "nan", "1e999", "0", "é", "\ud800", "\0", "../../x"),
    *("=1+1", "\x1b[31m", "x" * 5000, "features", "hf:", "hf:a/b", "compact_cnn", "cap_dba_l2", "[1, 2]"),
    *([], {}, [[]], {"": None}, [None], [1, "a"], list(range(300)), {"name": 1}, {"a": {"b": []}}, _DEEP),
)


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Damage one to four places: cut, change, insert, remove, repeat or empty a few bytes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place, length = rng.randrange(len(data) + 1), min(rng.choice((1, 1, 2, 4, 8, 64, 1000)), len(data))
        kind = rng.choice(("cut", "flip", "change", "number", "insert", "remove", "repeat", "empty"))
        if kind == "cut":
            del data[place:]
        elif kind == "flip" and data:
            data[place % len(data)] ^= 1 << rng.randrange(8)
        elif kind == "change":
            data[place : place + length] = rng.randbytes(length)
        elif kind == "number":  # sizes and counts in headers
            number = rng.choice((0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1))
            width = rng.choice((1, 2, 4, 8))
            data[place : place + width] = (number % 256**width).to_bytes(width, rng.choice(("little", "big")))
        elif kind == "insert":
            data[place:place] = rng.randbytes(length)
        elif kind == "remove":
            del data[place : place + length]
        elif kind == "repeat":
            data[place:place] = data[place : place + length] * rng.choice((1, 2, 20))
        else:
            data[place : place + length] = bytes(len(data[place : place + length]))
    return bytes(data)


def damage_document(document: Any, rng: random.Random) -> Any:
    """Replace, remove, add, rename or exchange one to three values anywhere in lists and dicts."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        holders = [holder for holder in _holders(document) if holder]
        if not holders:
            return _odd(rng)
        holder: Any = rng.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key, other = rng.choice(keys), rng.choice(keys)
        kind = rng.choice(("odd", "odd", "odd", "remove", "add", "rename", "exchange"))
        if kind == "odd":
            holder[key] = _odd(rng)
        elif kind == "remove":
            del holder[key]
        elif kind == "exchange":
            holder[key], holder[other] = holder[other], holder[key]
        elif isinstance(holder, list):
            holder.insert(key, _odd(rng))
        else:
            name = rng.choice(("", "a", "split", "backbone", "n_layer", str(key) + "x", "\ud800"))
            holder[name] = _odd(rng) if kind == "add" else holder.pop(key)
    return document


def _odd(rng: random.Random) -> Any:
    """A copy, because further damage may go into it."""
    return copy.deepcopy(rng.choice(ODD))


def _holders(document: Any) -> list[Any]:
    """Every list and dict inside a document, itself included."""
    found = [document] if isinstance(document, list | dict) else []
    for holder in found:
        found += [one for one in (holder.values() if isinstance(holder, dict) else holder) if type(one) in (list, dict)]
    return found


def damage_json(content: bytes, rng: random.Random) -> bytes:
    """Damage the values of a JSON document."""
    return json.dumps(damage_document(json.loads(content), rng)).encode()


def damage_json_lines(content: bytes, rng: random.Random) -> bytes:
    """Damage the values of one or more lines."""
    rows = damage_document([json.loads(line) for line in content.splitlines()], rng)
    return "\n".join(json.dumps(row) for row in rows).encode() if isinstance(rows, list) else json.dumps(rows).encode()


def damage_csv(content: bytes, rng: random.Random) -> bytes:
    """Damage the cells of a CSV file, its header included."""
    rows = damage_document(list(csv.reader(io.StringIO(content.decode()))), rng)
    out = io.StringIO()
    csv.writer(out).writerows(row if isinstance(row, list) else [row] for row in rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def damage_parquet(content: bytes, rng: random.Random) -> bytes:
    """Damage the rows of a Parquet file; the file stays valid, but its columns may have other types."""
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    for _ in range(20):  # not every list of rows is a table
        out = io.BytesIO()
        try:
            damaged = damage_document(rows, rng)
            names = list(dict.fromkeys(name for row in damaged for name in row))
            pq.write_table(pa.table({name: [row.get(name) for row in damaged] for name in names}), out)
        except Exception:
            continue
        return out.getvalue()
    return damage_bytes(content, rng)


def damage_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Damage the values of the header of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(damage_document(json.loads(content[8 : 8 + size]), rng)).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def damage_checkpoint(content: bytes, rng: random.Random) -> bytes:
    """Damage the values inside a checkpoint, which stays a file that torch can load."""
    document = torch.load(io.BytesIO(content), weights_only=True)
    for _ in range(20):
        out = io.BytesIO()
        try:
            torch.save(damage_document(dict(document), rng), out)
        except Exception:
            continue
        return out.getvalue()
    return damage_bytes(content, rng)
