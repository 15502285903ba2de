"""Groups as kafka-consumer-groups describes them, from the rows of their tables."""

from __future__ import annotations

from typing import Any

_STATE = ("group", "groupType", "protocol", "state", "epoch")


def states_of(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each group, with the number of its members."""
    found: dict[str, dict[str, Any]] = {}
    for row in members:
        fields = {name: row[name] for name in _STATE}
        found.setdefault(row["group"], {**fields, "members": 0})["members"] += row["memberId"] is not None
    return list(found.values())


def offsets_of(members: list[dict[str, Any]], lag: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join offsets with members: a partition without an offset has a row if a member has it."""
    owners = {
        (row["group"], each["topic"], partition): row
        for row in members
        for each in row["assignment"] or ()
        for partition in each["partitions"]
    }
    known = {(row["group"], row["topic"], row["partition"]): row for row in lag}
    rows = []
    for place in sorted({*owners, *known}):
        row = dict(zip(("group", "topic", "partition"), place, strict=True))
        row |= {name: known.get(place, {}).get(name) for name in ("offset", "logEndOffset", "lag")}
        rows.append(row | {name: owners.get(place, {}).get(name) for name in ("memberId", "clientHost", "clientId")})
    return rows
