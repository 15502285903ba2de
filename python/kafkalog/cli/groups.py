"""``kafkalog groups``: prints what kafka-consumer-groups --describe prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.cli import _common, _printing
from kafkalog.cli._selection import of_partitions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

_OFFSETS: dict[str, Any] = {
    "GROUP": "group",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "CURRENT-OFFSET": "offset",
    "LOG-END-OFFSET": "logEndOffset",
    "LAG": "lag",
    "CONSUMER-ID": "memberId",
    "HOST": "clientHost",
    "CLIENT-ID": "clientId",
}
_STATE = {
    "GROUP": "group",
    "TYPE": "groupType",
    "ASSIGNMENT-STRATEGY": "protocol",
    "STATE": "state",
    "EPOCH": "epoch",
    "#MEMBERS": "members",
}
_MEMBERS: dict[str, Any] = {
    "GROUP": "group",
    "CONSUMER-ID": "memberId",
    "GROUP-INSTANCE-ID": "instanceId",
    "HOST": "clientHost",
    "CLIENT-ID": "clientId",
    "#PARTITIONS": lambda row: sum(len(each["partitions"]) for each in row["assignment"] or ()),
    "ASSIGNMENT": lambda row: _assigned(row["assignment"] or ()),
}
_COMMITS: dict[str, Any] = {
    "LEADER-EPOCH": "leaderEpoch",
    "COMMITTED": lambda row: format_time(row["commitTimestamp"]),
    "METADATA": lambda row: row["metadata"] or None,
}
_NUMBERS = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "#MEMBERS", "#PARTITIONS", "EPOCH")
EPILOG = (
    "Offsets are committed offsets. '-' is an unknown value: the log end offset of a partition "
    "whose folder does not exist, or the member of a partition that is not assigned. Share groups commit none: how "
    "far they are is in __share_group_state, which kafkalog dump --share-group-state-decoder shows."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    _common.add_ignored(parser, "--describe", "--all-groups")
    _common.add_option(
        parser,
        "-g",
        "--group",
        other=["--groups"],
        action=_common.Names,
        metavar="GROUP",
        help="only these groups, separated by commas; may be repeated",
    )
    _common.add_topics(parser, "only offsets of these topics")
    _common.add_partitions(parser, "only offsets of these partitions")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="committed offsets and lag (the default)")
    what.add_argument("--state", action="store_true", help="one line for each group: type, assignor, state, members")
    what.add_argument("--members", action="store_true", help="one line for each member, with its partitions")
    parser.add_argument("--list", action="store_true", help="only the names of the groups; with --state, states too")
    parser.add_argument(
        "--verbose", action="store_true", help="with offsets also leader epoch, time and metadata of each commit"
    )
    parser.add_argument(
        "-J", "--json", action="store_true", help="one JSON object per line, by the names of the tables"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the groups; those that are requested and do not exist are reported."""
    from kafkalog import tables
    from kafkalog.tables._described import offsets_of, states_of

    if (arguments.topic or arguments.partition) and (arguments.list or arguments.state or arguments.members):
        raise ValueError("-t and -p select offsets; -g names groups")
    found = tables.consumer_groups(arguments.path, on_corrupt="skip")
    shown, members = [found], _printing.rows_of(found)
    members, code = _printing.only_named(members, "group", arguments.group, "group", arguments.path)
    if arguments.list:
        columns = {name: _STATE[name] for name in (("GROUP", "TYPE", "STATE") if arguments.state else ("GROUP",))}
        _list(states_of(members), columns, as_json=arguments.json)
    elif arguments.state:
        _printing.print_rows(_STATE, states_of(members), _NUMBERS, as_json=arguments.json)
    elif arguments.members:
        rows = [row for row in members if arguments.json or row["memberId"] is not None]
        _printing.print_rows(_MEMBERS, rows, _NUMBERS, as_json=arguments.json)
    else:
        shown.append(tables.lag(arguments.path, on_corrupt="skip"))
        lag = _printing.rows_of(shown[-1])
        if arguments.group:
            lag = [row for row in lag if row["group"] in arguments.group]
        rows, columns = offsets_of(members, lag), dict(_OFFSETS)
        if arguments.topic or arguments.partition:
            # A group without offsets has no topic.
            rows, missing = of_partitions([row for row in rows if row["topic"] is not None], arguments)
            code = max(code, missing)
        if arguments.verbose:
            rows, columns = _with_commits(rows, arguments.path), {**columns, **_COMMITS}
        _printing.print_rows(columns, rows, _NUMBERS, as_json=arguments.json)
    return max(code, _common.print_partial(*shown))


def _list(groups: list[dict[str, Any]], columns: dict[str, Any], *, as_json: bool) -> None:
    """Print a line for each group, as kafka-consumer-groups --list does; with states a table."""
    rows = [{name: row[name] for name in columns.values()} for row in groups]
    if as_json or len(columns) > 1:
        _printing.print_rows(columns, rows, (), as_json=as_json)
        return
    for row in rows:
        _printing.say(row["group"])


def _with_commits(rows: list[dict[str, Any]], paths: list[str]) -> list[dict[str, Any]]:
    """Add what each commit says besides its offset."""
    from kafkalog import tables

    place = ("group", "topic", "partition")
    found = _printing.rows_of(tables.consumer_offsets(paths, on_corrupt="skip"))
    commits = {tuple(row[name] for name in place): row for row in found}
    names = ("leaderEpoch", "commitTimestamp", "metadata")
    return [
        {**row, **{name: commits.get(tuple(row[each] for each in place), {}).get(name) for name in names}}
        for row in rows
    ]


def _assigned(assignment: Iterable[dict[str, Any]]) -> str | None:
    return ",".join(f"{each['topic']}({','.join(map(str, each['partitions']))})" for each in assignment) or None
