"""Reads a cluster from log dirs: one replay of the best metadata log, and of each partition of ``__consumer_offsets``.

The log dirs may be of one node or of several, in which case the best replica is taken: of the metadata log the one with
the latest epoch and then the longest, as Raft elects; of ``__consumer_offsets`` one in sync before others, and the same
among these. What cannot be read is noted, and the next replica is read instead.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _places, storage
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.log import partition_at
from kafkalog.metadata.cluster import (
    PARTS,
    Acl,
    Cluster,
    Group,
    GroupOffset,
    LeftOut,
    Quota,
    ScramUser,
    Settings,
    Topic,
)
from kafkalog.rescue.inventory import METADATA, open_disks
from kafkalog.rescue.metadata import best_log, logs_among
from kafkalog.rescue.model import Replica
from kafkalog.tables import _partial, _rows
from kafkalog.tables._image import TOPIC_CONFIG
from kafkalog.tables.cluster import named_acl
from kafkalog.tables.groups import consumer_groups
from kafkalog.tables.offsets import committed_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog import _core
    from kafkalog.rescue.metadata import MetadataLog
    from kafkalog.rescue.model import Disk, Finding
    from kafkalog.typing import Paths

_OFFSETS = "__consumer_offsets"
# ConfigResource.Type
_KINDS = {4: "broker", 16: "client-metrics", 32: "group"}
# ScramMechanism
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
# What stands for a secret that was not requested.
_HIDDEN = "***"


def read_cluster(
    path: Paths,
    *,
    only: Iterable[str] = PARTS,
    topics: Iterable[str] | None = None,
    secrets: bool = False,
) -> Cluster:
    """Read what a new cluster needs.

    Parameters
    ----------
    path : path or list of paths
        Log dirs of one node or of several, or partition folders of ``__cluster_metadata`` and ``__consumer_offsets``.
    only : iterable of str
        The parts to return, of ``PARTS``.
    topics : iterable of str, optional
        Return only what is about these topics: themselves, the ACLs on them, and the offsets committed in them.
    secrets : bool
        Whether to return sensitive settings, and salts and keys of SCRAM users.

    Raises
    ------
    FileNotFoundError, ValueError
        If a path does not exist, or is no log dir; if the log dirs are of different clusters.
    UnknownTopicOrPartitionError
        If a topic does not exist.
    """
    wanted = [_arguments.choose("only", part, PARTS) for part in only]
    parts = tuple(part for part in PARTS if part in wanted)
    paths = _arguments.paths(storage.located(path))
    with storage.one_listing(paths):
        return _Reading(paths, parts, None if topics is None else set(topics), secrets=secrets).cluster()


class _Reading:
    """The disks and what was found on them."""

    def __init__(self, paths: list[str], parts: tuple[str, ...], topics: set[str] | None, *, secrets: bool) -> None:
        self._paths, self._parts, self._wanted = paths, parts, topics
        self._notes: list[str] = []
        self._is_damaged = False
        self._hidden: list[str] = []
        disks, findings = open_disks(list(dict.fromkeys(_log_dir_of(path) for path in paths)))
        self._notes += map(_line, findings)
        self._disks = [disk for disk, _ in disks]
        # Faults of folders, by the error.
        unread: dict[str, str] = {}
        given = {_places.known_as(path) for path in paths}
        self._replicas = [
            replica
            for disk, log_dir in disks
            for replica in _replicas_of(disk, log_dir, unread)
            if not given.isdisjoint(map(_places.known_as, (disk.path, replica.path)))
        ]
        self._read, about = best_log(self._logs(), secrets=secrets)
        self._notes += map(_line, about)
        self._is_damaged |= any(each.severity != "info" for each in about)
        # These are read later, and their faults are noted then.
        others = [error for error, topic in unread.items() if topic not in {METADATA, _OFFSETS}]
        self._notes += [f"{' '.join(error.split())}; nothing here is from that file or folder" for error in others]
        self._is_damaged |= bool(others) and self._is_from_folders

    def _logs(self) -> list[MetadataLog]:
        """Return the metadata logs, without those of folders that cannot be listed."""
        found: list[MetadataLog] = []
        for each in self._replicas:
            try:
                found += logs_among([_to_its_end(each)] if each.topic == METADATA else [])
            except (KafkaLogError, OSError) as error:  # noqa: PERF203 - another node may have it
                self._is_damaged = True
                self._notes.append(f"{' '.join(str(error).split())}; left out")
        return found

    @property
    def _is_from_folders(self) -> bool:
        """True if the folders tell topics that the metadata does not."""
        return self._read is None or self._read.notes.gap is not None

    def cluster(self) -> Cluster:
        """Make the model."""
        values = defaultdict[str, list[dict[str, Any]]](list)
        for record in self._read.records if self._read is not None else ():
            values[record.type].append(record.value)
        configs = self._configs(values["CONFIG_RECORD"])
        known = self._topics(values, configs)
        wanted = self._wanted
        if wanted is not None:
            self._require(wanted, known)
        in_sync = {
            each["partitionId"]: each["isr"]
            for each in values["PARTITION_RECORD"]
            if each["topicId"] in {topic.topic_id for topic in known if topic.name == _OFFSETS}
        }
        partitions = {each.name: each.partitions for each in known}
        makers: dict[str, Any] = {
            "topics": lambda: [each for each in known if wanted is None or each.name in wanted],
            "configs": lambda: [_settings(*key, each) for key, each in configs.items() if key[0] in _KINDS and each],
            "acls": lambda: _acls(values["ACCESS_CONTROL_ENTRY_RECORD"], wanted),
            "users": lambda: self._users(values["USER_SCRAM_CREDENTIAL_RECORD"]),
            "quotas": lambda: _quotas(values["CLIENT_QUOTA_RECORD"]),
            "groups": lambda: self._groups(in_sync, partitions),
        }
        of_topics = {"topics", "acls", "groups"}
        parts = [part for part in self._parts if wanted is None or part in of_topics]
        found = {part: tuple(makers[part]()) if part in parts else () for part in PARTS}
        left_out = []
        if "users" in parts and values["DELEGATION_TOKEN_RECORD"]:
            tokens = sorted(each["tokenId"] for each in values["DELEGATION_TOKEN_RECORD"])
            left_out.append(LeftOut("delegation tokens, which are signed with a key of the old cluster", tokens))
        if self._hidden:
            left_out.append(LeftOut("secrets, which --secrets shows", sorted(self._hidden)))
        if self._read is None:
            self._notes.append(self._without_metadata())
        return Cluster(
            parts=tuple(parts),
            paths=tuple(self._paths),
            cluster_id=next((disk.cluster_id for disk in self._disks if disk.cluster_id is not None), None),
            metadata_path=None if self._read is None else self._read.log.replica.path,
            metadata_end=None if self._read is None else self._read.log.end_offset,
            features={each["name"]: each["featureLevel"] for each in values["FEATURE_LEVEL_RECORD"]},
            partitions=partitions,
            topics=found["topics"],
            settings=found["configs"],
            acls=found["acls"],
            users=found["users"],
            quotas=found["quotas"],
            groups=found["groups"],
            left_out=tuple(left_out),
            notes=tuple(dict.fromkeys(self._notes)),
            is_damaged=self._is_damaged,
        )

    def _configs(self, values: Iterable[dict[str, Any]]) -> dict[tuple[int, str], dict[str, str]]:
        """Return the settings by what they are for, without those that are hidden."""
        found: dict[tuple[int, str], dict[str, str]] = {}
        for each in sorted(values, key=lambda each: (each["resourceType"], each["resourceName"], each["name"])):
            kind, name = each["resourceType"], each["resourceName"]
            settings = found.setdefault((kind, name), {})
            if each["value"] == _HIDDEN:
                is_shown = "configs" in self._parts and self._wanted is None
                if kind == TOPIC_CONFIG:
                    is_shown = "topics" in self._parts and (self._wanted is None or name in self._wanted)
                if is_shown:
                    of = f"topic {name}" if kind == TOPIC_CONFIG else str(_settings(kind, name, {}))
                    self._hidden.append(f"{each['name']} of {of}")
            else:
                settings[each["name"]] = each["value"] or ""
        return found

    def _topics(
        self, values: dict[str, list[dict[str, Any]]], configs: dict[tuple[int, str], dict[str, str]]
    ) -> list[Topic]:
        """Return the topics of the metadata, and those of folders where changes of it are missing."""
        partitions = defaultdict[str, dict[int, int]](dict)
        for each in values["PARTITION_RECORD"]:
            # A reassignment under way counts as undone, as in kafka-topics.
            factor = len(each["replicas"]) - len(each.get("addingReplicas") or ())
            partitions[each["topicId"]][each["partitionId"]] = factor
        found = [
            Topic(
                each["name"],
                each["topicId"],
                max(partitions[each["topicId"]], default=-1) + 1,
                max(partitions[each["topicId"]].values(), default=1),
                configs.get((TOPIC_CONFIG, each["name"]), {}),
            )
            for each in values["TOPIC_RECORD"]
        ]
        if self._is_from_folders:
            found += self._topics_of_folders({each.name for each in found})
        return sorted(found)

    def _topics_of_folders(self, known: set[str]) -> list[Topic]:
        """Return the topics that only folders show."""
        folders = defaultdict[str, list[Replica]](list)
        for each in self._replicas:
            if each.topic not in known and each.topic != METADATA:
                folders[each.topic].append(each)
        found = []
        for name, replicas in folders.items():
            ids = sorted({each.topic_id for each in replicas if each.topic_id is not None})
            if len(ids) > 1:
                self._notes.append(f"topic {name}: its folders have several ids: {', '.join(ids)}")
            nodes = defaultdict[int, set[object]](set)
            for each in replicas:
                # Two log dirs are of two nodes unless they say otherwise.
                nodes[each.partition].add(each.disk.path if each.disk.node_id is None else each.disk.node_id)
            factor = max(len(each) for each in nodes.values())
            found.append(Topic(name, ids[-1] if ids else None, max(nodes) + 1, factor, {}, "folders"))
        return found

    def _require(self, topics: set[str], known: Sequence[Topic]) -> None:
        missing = sorted(topics.difference(each.name for each in known))
        if missing:
            names = _arguments.listing(each.name for each in known) or "none"
            raise UnknownTopicOrPartitionError(
                f"no topic {', '.join(map(repr, missing))} in {', '.join(self._paths)}; found: {names}"
            )

    def _users(self, values: Iterable[dict[str, Any]]) -> list[ScramUser]:
        found = []
        for each in values:
            mechanism = _MECHANISMS.get(each["mechanism"], str(each["mechanism"]))
            secret = (each["salt"], each["storedKey"], each["serverKey"])
            shown = (None, None, None) if _HIDDEN in secret else secret
            user = ScramUser(each["name"], mechanism, each["iterations"], *shown)
            if _HIDDEN in secret:
                self._hidden.append(f"salt and keys of user {user}")
            found.append(user)
        return sorted(found, key=lambda user: user[:2])

    def _groups(self, in_sync: dict[int, list[int]], known: dict[str, int]) -> list[Group]:
        """Return the groups of all partitions that can be read."""
        replicas = defaultdict[int, list[Replica]](list)
        for each in self._replicas:
            if each.topic == _OFFSETS:
                replicas[each.partition].append(_to_its_end(each))
        groups: list[Group] = []
        read = []
        for partition in sorted(replicas):
            insync = in_sync.get(partition, ())
            ranked = sorted(
                replicas[partition],
                key=lambda each: (each.disk.node_id not in insync, -each.last_epoch, -each.log_end_offset),
            )
            for each in ranked:
                try:
                    groups += self._groups_in(each.path)
                except (KafkaLogError, OSError) as error:  # noqa: PERF203 - the first that can be read
                    self._is_damaged = True
                    self._notes.append(f"{' '.join(str(error).split())}; left out")
                else:
                    read.append(partition)
                    break
        count, source = known.get(_OFFSETS, max(replicas, default=-1) + 1), "metadata"
        if self._read is None or _OFFSETS not in known:
            source = "highest"
        missing = _partial.missing_line({"topic": _OFFSETS, "here": read, "of": count, "source": source})
        if missing is not None and not (count == 0 and self._read is not None):
            self._notes.append(f"{missing}; without them the offsets of some groups are unknown")
        if self._wanted is not None:
            wanted = self._wanted
            kept = [(each, tuple(offset for offset in each.offsets if offset.topic in wanted)) for each in groups]
            groups = [each._replace(offsets=offsets) for each, offsets in kept if offsets]
        return sorted(groups)

    def _groups_in(self, folder: str) -> list[Group]:
        offsets, members = committed_offsets(folder), consumer_groups(folder)
        for table in (offsets, members):
            self._notes += _rows.notes_of(table)
        of_group = defaultdict[str, list[GroupOffset]](list)
        for row in offsets.to_pylist():
            names = ("topic", "partition", "offset", "leaderEpoch", "metadata")
            of_group[row["group"]].append(GroupOffset(*(row[name] for name in names)))
        kinds = {row["group"]: (row["groupType"], row["state"]) for row in members.to_pylist()}
        return [
            Group(name, *kinds.get(name, ("classic", "Empty")), tuple(sorted(of_group.get(name, ()))))
            for name in {*kinds, *of_group}
        ]

    def _without_metadata(self) -> str:
        if any(disk.meta_version == 0 for disk in self._disks):
            where = "ZooKeeper had them"
        else:
            where = "a controller's log dir has them, or ZooKeeper before KRaft"
        return (
            f"no metadata log is here: topics, partitions and ids are those of the folders; settings, ACLs, users and "
            f"quotas, partitions and replicas that only other nodes have, and deletions under way are unknown ({where})"
        )


def _replicas_of(disk: Disk, log_dir: _core.LogDir, unread: dict[str, str]) -> Iterator[Replica]:
    """Yield the live partitions of a disk, each to the beginning of its last segment; errors go to ``unread``."""
    for (folder, topic, partition, state), identity in zip(log_dir.folders(), log_dir.identities(), strict=True):
        if state != "live":
            continue
        topic_id, start, high_watermark, epochs, segments, errors = identity
        unread.update(dict.fromkeys(errors, topic))
        end = max([start, *(base for base, _ in segments)])
        yield Replica(disk, folder, topic, topic_id, partition, state, start, end, high_watermark, tuple(epochs))


def _line(finding: Finding) -> str:
    """Return what a finding of a rescue says here: nothing is rescued, so its severity and code are of no use."""
    return finding.message if finding.path is None else f"{finding.path}: {finding.message}"


def _log_dir_of(path: str) -> str:
    """Return the log dir of a partition's folder, or the path."""
    return path if partition_at(path) is None else _places.above(path)


def _to_its_end(replica: Replica) -> Replica:
    """Return a replica with the end of its log, which is in the last segment."""
    try:
        log = partition_at(replica.path)
        return replica if log is None else replace(replica, log_end_offset=log.log_end_offset)
    except (KafkaLogError, OSError):
        # Damage is named when the log is read.
        return replica


def _settings(kind: int, name: str, configs: dict[str, str]) -> Settings:
    return Settings(_KINDS.get(kind, str(kind)), name, configs)


def _acls(values: Iterable[dict[str, Any]], topics: set[str] | None) -> list[Acl]:
    names = ("resourceType", "resourceName", "patternType", "principal", "host", "permissionType", "operation")
    # Two entries may differ in their ids only.
    found = {Acl(*(named_acl(each)[name] for name in names)) for each in values}
    return sorted(each for each in found if topics is None or _is_about(each, topics))


def _is_about(acl: Acl, topics: set[str]) -> bool:
    if acl.resource_type != "TOPIC":
        return False
    if acl.pattern_type == "PREFIXED":
        return any(topic.startswith(acl.resource_name) for topic in topics)
    return acl.resource_name == "*" or acl.resource_name in topics


def _quotas(values: Iterable[dict[str, Any]]) -> list[Quota]:
    found = defaultdict[tuple[tuple[str, str | None], ...], dict[str, float]](dict)
    for each in sorted(values, key=lambda each: str(each["key"])):
        # A user comes before a client, as kafka-configs wants them.
        entity = sorted(((one["entityType"], one["entityName"]) for one in each["entity"]), reverse=True)
        found[tuple(entity)][each["key"]] = each["value"]
    quotas = [Quota(entity, limits) for entity, limits in found.items()]
    return sorted(quotas, key=lambda each: [(kind, name is not None, name or "") for kind, name in each.entity])
