"""Columns of rows that say something about each instance: its class, its name."""

from typing import Any

from miv.errors import MIVError


def of_instances(
    count: int,
    references: list[list[int]],
    bags: list[list[int]],
    column: str,
    of_references: list[Any],
    bag_column: str,
    of_bags: list[Any],
) -> list[str] | None:
    """One string per instance of a pool, or ``None`` if the rows do not have both columns.

    Args:
        count: number of instances.
        references: per row, the instances to ask with.
        bags: per row, the instances of its bag.
        column: name of the column about the references, for messages.
        of_references: per row, one string per reference, or one string for a single query.
        bag_column: name of the column about the bags.
        of_bags: per row, one string per instance of the bag.
    """
    if not of_references or not of_bags:
        return None
    found: list[str | None] = [None] * count
    for number, (asked, bag) in enumerate(zip(references, bags, strict=True)):
        given = of_references[number]
        given = list(given) if isinstance(given, list | tuple) else [given]
        rows = ((column, given, asked, "query"), (bag_column, list(of_bags[number]), bag, "bag"))
        for name, said, known, what in rows:
            if len(said) != len(known):
                raise MIVError(
                    f"Row {number}: {len(said)} {name} for a {what} of {len(known)}. Expected one per instance."
                )
            for index, word in zip(known, map(str, said), strict=True):
                if found[index] not in (None, word):
                    raise MIVError(
                        f"Row {number}: an instance has {word!r} in {name}, but {found[index]!r} in an earlier row."
                    )
                found[index] = word
    return ["" if one is None else one for one in found]
