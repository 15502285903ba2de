"""``kafkalog groups``: prints what kafka-consumer-groups --describe prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog.cli import _common

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_OFFSETS = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_NUMBERS = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "#MEMBERS", "#PARTITIONS", "EPOCH")
_STATE = ("GROUP", "TYPE", "ASSIGNMENT-STRATEGY", "STATE", "EPOCH", "#MEMBERS")
_MEMBERS = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    parser.add_argument("--group", action="append", metavar="GROUP", help="only this group; may be repeated")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="committed offsets and lag (the default)")
    what.add_argument("--state", action="store_true", help="one line for each group: type, assignor, state, members")
    what.add_argument("--members", action="store_true", help="one line for each member, with its partitions")
    parser.add_argument(
        "-J", "--json", action="store_true", help="one JSON object per line, by the names of the tables"
    )
    parser.epilog = (
        "Offsets are committed offsets. '-' is an unknown value: the log end offset of a partition "
        "whose folder does not exist, or the member of a partition that is not assigned. Share groups commit none: how "
        "far they are is in __share_group_state, which kafkalog dump --share-group-state-decoder shows."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the groups; those that are requested and do not exist are reported."""
    from kafkalog import tables

    found = tables.consumer_groups(arguments.path, on_corrupt="skip")
    shown, members = [found], _common.rows_of(found)
    members, code = _common.only_named(members, "group", arguments.group, "group", arguments.path)
    if arguments.state:
        _print(_STATE, [_state(rows) for rows in _by_group(members)], as_json=arguments.json)
    elif arguments.members:
        if arguments.json:
            for row in members:
                _common.json_line(row)
        else:
            _common.table(_MEMBERS, [_member(row) for row in members if row["memberId"] is not None], right=_NUMBERS)
    else:
        shown.append(tables.lag(arguments.path, on_corrupt="skip"))
        lag = _common.rows_of(shown[-1])
        if arguments.group:
            lag = [row for row in lag if row["group"] in arguments.group]
        _print(_OFFSETS, _offsets(members, lag), as_json=arguments.json)
    return max(code, _common.tell_partial(*shown))


def _print(head: Sequence[str], rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if not as_json:
        _common.table(head, [[row[name] for name in head] for row in rows], right=_NUMBERS)
        return
    for row in rows:
        _common.json_line({_JSON[name]: row[name] for name in head})


# The tables' names.
_JSON = {
    "GROUP": "group",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "CURRENT-OFFSET": "offset",
    "LOG-END-OFFSET": "logEndOffset",
    "LAG": "lag",
    "CONSUMER-ID": "memberId",
    "HOST": "clientHost",
    "CLIENT-ID": "clientId",
    "TYPE": "groupType",
    "ASSIGNMENT-STRATEGY": "protocol",
    "STATE": "state",
    "EPOCH": "epoch",
    "#MEMBERS": "members",
}


def _by_group(members: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in members:
        found.setdefault(row["group"], []).append(row)
    return list(found.values())


def _state(rows: list[dict[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    return {
        "GROUP": first["group"],
        "TYPE": first["groupType"],
        "ASSIGNMENT-STRATEGY": first["protocol"],
        "STATE": first["state"],
        "EPOCH": first["epoch"],
        "#MEMBERS": sum(row["memberId"] is not None for row in rows),
    }


def _member(row: dict[str, Any]) -> tuple[Any, ...]:
    assignment = row["assignment"] or []
    return (
        row["group"],
        row["memberId"],
        row["instanceId"],
        row["clientHost"],
        row["clientId"],
        sum(len(each["partitions"]) for each in assignment),
        ",".join(f"{each['topic']}({','.join(map(str, each['partitions']))})" for each in assignment) or None,
    )


def _offsets(members: list[dict[str, Any]], lag: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join offsets with members: a partition without an offset has a row if a member has it."""
    owners = {
        (row["group"], each["topic"], partition): row
        for row in members
        for each in row["assignment"] or ()
        for partition in each["partitions"]
    }
    known = {(row["group"], row["topic"], row["partition"]): row for row in lag}
    return [
        {
            "GROUP": place[0],
            "TOPIC": place[1],
            "PARTITION": place[2],
            "CURRENT-OFFSET": known.get(place, {}).get("offset"),
            "LOG-END-OFFSET": known.get(place, {}).get("logEndOffset"),
            "LAG": known.get(place, {}).get("lag"),
            "CONSUMER-ID": owners.get(place, {}).get("memberId"),
            "HOST": owners.get(place, {}).get("clientHost"),
            "CLIENT-ID": owners.get(place, {}).get("clientId"),
        }
        for place in sorted({*owners, *known})
    ]
