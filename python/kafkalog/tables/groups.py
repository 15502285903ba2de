"""Groups and their members, of all four types, as the group coordinator has them after loading."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, storage
from kafkalog.tables import _partial, _rows
from kafkalog.tables.cluster import topic_names
from kafkalog.tables.offsets import consumer_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from kafkalog.tables._rows import Entry
    from kafkalog.typing import Paths

_TOPIC = "__consumer_offsets"
# MemberState.STABLE of consumer and of streams groups
_STABLE = {"consumer": 0, "share": 0, "streams": 1}
_NOT_VALIDATED = -1
# What a record of a modern group says, by the end of its type; the beginning is that of the group.
_PARTS = {
    "ConsumerGroup": "consumer",
    "ShareGroup": "share",
    "StreamsGroup": "streams",
}


def consumer_groups(
    path: Paths,
    *,
    history: bool = False,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the groups and their members, as the group coordinator has them after loading.

    Parameters
    ----------
    path, on_corrupt
        As for :func:`consumer_offsets`. Topic ids are resolved with the metadata log and the partitions' folders in the
        same log dirs.
    history : bool
        Return the members that a record changed, as they are after it, for every record that is no commit.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each member, sorted by group and member id; a group without members has one row.

        ===================== =============================== ======================================================
        column                type                            meaning
        ===================== =============================== ======================================================
        group, groupType      string                          the type is classic, consumer, share or streams
        state                 string                          as Kafka's tools say: Stable, Empty, Assigning,
                                                              Reconciling, NotReady; Dead for one that was deleted,
                                                              with ``history`` only
        epoch                 int32                           the group epoch; of a classic group the generation
        protocolType          string                          consumer, connect, ...; empty for a group that only
                                                              commits offsets
        protocol              string                          the assignor, if the records say
        leader                string                          member id of a classic group's leader
        memberId, instanceId  string
        clientId, clientHost  string
        rackId                string
        subscribedTopics      list<string>                    sorted, with what a regular expression resolved to;
                                                              null for protocols other than Kafka's own
        assignment            list<struct<topic, partitions>> what the member has; a topic without a known name is
                                                              shown by its id. Of a streams member, the input of its
                                                              active tasks
        logOffset             int64                           of the record; with ``history`` only
        logTimestamp          timestamp[ms, UTC]              of the record; with ``history`` only
        ===================== =============================== ======================================================

        A classic group that was between two generations is Stable in the generation that was written last, as after a
        coordinator's start. The schema's metadata is that of :func:`consumer_offsets`.

    Raises
    ------
    FileNotFoundError, ValueError, CorruptRecordError
        As for :func:`consumer_offsets`.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {
        **dict.fromkeys(("group", "groupType", "state"), pa.string()),
        "epoch": pa.int32(),
        **dict.fromkeys(("protocolType", "protocol", "leader"), pa.string()),
        **dict.fromkeys(("memberId", "instanceId", "clientId", "clientHost", "rackId"), pa.string()),
        "subscribedTopics": pa.list_(pa.string()),
        "assignment": pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])),
    }
    history = _arguments.flag("history", history)
    types = ["GroupMetadata", *(f"{prefix}{part}" for prefix in _PARTS for part in _MODERN)]
    notes = _rows.Notes()
    unnamed = list[Exception]()
    names = topic_names(path, unnamed)
    if unnamed and _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip")) == "raise":
        raise unnamed[0]

    def entries(some: Paths) -> Iterator[Entry]:
        return _rows.replayed(some, _TOPIC, types, embedded=True, notes=notes)

    if history:
        parts, unread = _partial.by_partition(
            path, _TOPIC, on_corrupt, lambda some: list(_changes(entries(some), names))
        )
        table = _rows.table(columns, [change for part in parts for change in part], notes, history=True)
        return _partial.with_coverage(table, path, _TOPIC, [*unnamed, *unread])

    def read(some: Paths) -> dict[str, _Group]:
        groups: dict[str, _Group] = {}
        for entry in entries(some):
            _apply(groups, entry)
        # Who only commits offsets has no other record (OffsetMetadataManager.replay).
        for name in consumer_offsets(some)["group"].unique().to_pylist():
            groups.setdefault(str(name), _Group("classic"))
        return groups

    found, unread = _partial.by_partition(path, _TOPIC, on_corrupt, read)
    # A group is in one partition.
    groups = {name: group for part in found for name, group in part.items()}
    rows = [row for name in sorted(groups) for row in groups[name].rows(name, names)]
    return _partial.with_coverage(_rows.table(columns, rows, notes), path, _TOPIC, [*unnamed, *unread])


def _changes(entries: Iterator[Entry], names: dict[str, str]) -> Iterator[_rows.Change]:
    groups: dict[str, _Group] = {}
    for entry in entries:
        before = groups.get(_name_of(entry))
        _apply(groups, entry)
        name, member = _name_of(entry), (entry.key or {}).get("memberId")
        now = groups.get(name)
        if now is None:
            rows = [{"group": name, "groupType": before.kind, "state": "Dead"}] if before else []
        elif member is None:
            rows = now.rows(name, names)
        else:
            rows = now.rows(name, names, [member])
        yield _rows.Change(entry.offset, entry.timestamp, rows)


def _name_of(entry: Entry) -> str:
    key = entry.key or {}
    return str(key.get("groupId", key.get("group")))


@dataclass
class _Group:
    """A group: values of its records, by type and, where a key has one, by member."""

    kind: str
    # classic
    metadata: dict[str, Any] | None = None
    # the others
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    current: dict[str, dict[str, Any]] = field(default_factory=dict)
    expressions: dict[str, list[str]] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        if self.kind == "classic":
            return int((self.metadata or {}).get("generation", 0))
        return int(self.parts.get("Metadata", {}).get("epoch", 0))

    @property
    def state(self) -> str:
        """The state after loading (``maybeUpdateGroupState`` of the group's class)."""
        if self.kind == "classic":
            return "Stable" if self.metadata and self.metadata["members"] else "Empty"
        if not self.members:
            return "Empty"
        if self.kind == "share":
            return "Stable"
        if self.kind == "streams":
            topology = self.parts.get("Topology")
            validated = self.parts.get("Metadata", {}).get("validatedTopologyEpoch", _NOT_VALIDATED)
            if topology is None or topology["epoch"] != validated:
                return "NotReady"
        target = self.parts.get("TargetAssignmentMetadata", {}).get("assignmentEpoch", 0)
        if self.epoch > target:
            return "Assigning"
        reconciled = all(self._is_reconciled(member, target) for member in self.members)
        return "Stable" if reconciled else "Reconciling"

    def _is_reconciled(self, member: str, target: int) -> bool:
        current = self.current.get(member)
        return current is not None and current["state"] == _STABLE[self.kind] and current["memberEpoch"] == target

    @property
    def protocol(self) -> str | None:
        """The classic protocol, or the assignor that most members prefer (``preferredServerAssignor``)."""
        if self.kind == "classic":
            return (self.metadata or {}).get("protocol")
        preferred = Counter(each["serverAssignor"] for each in self.members.values() if each.get("serverAssignor"))
        return preferred.most_common(1)[0][0] if preferred else None

    def rows(self, name: str, names: dict[str, str], only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return a row for each member, or for some; for the group, if it has none."""
        group = {
            "group": name,
            "groupType": self.kind,
            "state": self.state,
            "epoch": self.epoch,
            "protocolType": (self.metadata or {}).get("protocolType", "") if self.kind == "classic" else self.kind,
            "protocol": self.protocol,
            "leader": (self.metadata or {}).get("leader"),
        }
        if self.kind == "classic":
            members = sorted((self.metadata or {}).get("members", ()), key=lambda each: each["memberId"])
            rows = [_classic_member(each, str(group["protocolType"])) for each in members]
        else:
            wanted = sorted(self.members) if only is None else [each for each in only if each in self.members]
            rows = [self._member(member, names) for member in wanted]
            # Removed members get a row with only their id.
            rows += [{"memberId": member} for member in only or () if member not in self.members]
        return [{**group, **row} for row in rows or [{}]]

    def _member(self, member: str, names: dict[str, str]) -> dict[str, Any]:
        value, current = self.members[member], self.current.get(member, {})
        topics = value.get("subscribedTopicNames")
        if topics is not None:
            topics = sorted({*topics, *self.expressions.get(value.get("subscribedTopicRegex") or "", ())})
        elif self.kind == "streams":
            topics = sorted({topic for each in self._subtopologies().values() for topic in each})
        if self.kind == "streams":
            assigned = self._inputs(current.get("activeTasks", ()))
        else:
            assigned = {
                names.get(each["topicId"], each["topicId"]): each["partitions"]
                for each in current.get("assignedPartitions", ())
            }
        return {
            "memberId": member,
            **{name: value.get(name) for name in ("instanceId", "clientId", "clientHost", "rackId")},
            "subscribedTopics": topics,
            "assignment": [{"topic": topic, "partitions": sorted(assigned[topic])} for topic in sorted(assigned)],
        }

    def _subtopologies(self) -> dict[str, list[str]]:
        """Return the topics that each part of a streams group's topology reads."""
        return {
            each["subtopologyId"]: [
                *each["sourceTopics"],
                *(topic["name"] for topic in each["repartitionSourceTopics"]),
            ]
            for each in self.parts.get("Topology", {}).get("subtopologies", ())
        }

    def _inputs(self, tasks: Iterable[dict[str, Any]]) -> dict[str, set[int]]:
        topics = self._subtopologies()
        found: dict[str, set[int]] = {}
        for task in tasks:
            for topic in topics.get(task["subtopologyId"], ()):
                found.setdefault(topic, set()).update(task["partitions"])
        return found


def _classic_member(value: dict[str, Any], protocol_type: str) -> dict[str, Any]:
    row = {
        "memberId": value["memberId"],
        "instanceId": value.get("groupInstanceId"),
        "clientId": value["clientId"],
        "clientHost": value["clientHost"],
    }
    if protocol_type != "consumer":
        return row
    # What cannot be decoded stays base64: a member without partitions may have no bytes at all.
    subscription, assignment = value["subscription"], value["assignment"]
    if isinstance(subscription, dict):
        row |= {"subscribedTopics": sorted(subscription["topics"]), "rackId": subscription.get("rackId")}
    assigned = assignment["assignedPartitions"] if isinstance(assignment, dict) else ()
    row["assignment"] = sorted(assigned, key=lambda each: str(each["topic"]))
    return row


def _apply(groups: dict[str, _Group], entry: Entry) -> None:
    """Change a group by a record (``GroupMetadataManager.replay``)."""
    name = _name_of(entry)
    if entry.type == "GroupMetadata":
        known = groups.get(name)
        if entry.value is not None:
            groups[name] = _Group("classic", entry.value)
        elif known is not None and known.kind == "classic":
            del groups[name]
        return
    prefix = next(each for each in _PARTS if entry.type.startswith(each))
    kind, part = _PARTS[prefix], entry.type[len(prefix) :]
    group = groups.get(name)
    if group is None or group.kind != kind:
        if entry.value is None:
            return
        group = groups[name] = _Group(kind)
    if part == "Metadata" and entry.value is None:
        del groups[name]
        return
    place, member = _MODERN[part](group), (entry.key or {}).get("memberId", part)
    if part == "RegularExpression":
        member = (entry.key or {})["regularExpression"]
    if entry.value is None:
        place.pop(member, None)
    else:
        place[member] = entry.value["topics"] if part == "RegularExpression" else entry.value


# Where the value of a record goes, by the end of its type.
_MODERN: dict[str, Any] = {
    "Metadata": lambda group: group.parts,
    "TargetAssignmentMetadata": lambda group: group.parts,
    "Topology": lambda group: group.parts,
    "MemberMetadata": lambda group: group.members,
    "CurrentMemberAssignment": lambda group: group.current,
    "RegularExpression": lambda group: group.expressions,
}
