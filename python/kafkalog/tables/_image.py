"""The metadata image: records of ``__cluster_metadata`` merged into one record for each thing that exists.

As a broker replays them (``MetadataDelta`` and its parts): what registers, creates or sets a thing is its record, what
changes it is merged into that record, and what removes it removes what belongs to it too. Records between the begin and
the end of a metadata transaction (KIP-866) count at its end, or never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.tables._rows import Entry

# ConfigResource.Type.TOPIC
TOPIC_CONFIG = 2
# PartitionRegistration: -2 is no change of the leader (LeaderConstants.NO_LEADER_CHANGE).
_SAME_LEADER = -2
_SAME_RECOVERY_STATE = -1
# BrokerRegistrationFencingChange
_FENCE, _UNFENCE = 1, -1

ThingKey = tuple[Any, ...]


class Thing(NamedTuple):
    """Content of an image: a record, the first one or as later ones changed it."""

    type: str
    version: int
    value: dict[str, Any]
    # the last record that changed it
    entry: Entry


@dataclass
class MetadataImage:
    """The state after some records."""

    things: dict[ThingKey, Thing] = field(default_factory=dict)
    # settings by type and name of what they are for
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    # names of topics by id, of those that were removed too
    names: dict[str, str] = field(default_factory=dict)
    # keys of partitions, by the topic's id
    _partitions: dict[str, dict[ThingKey, None]] = field(default_factory=dict)
    _open: list[Entry] | None = None

    def apply(self, entry: Entry) -> list[ThingKey]:
        """Apply a record; return the keys of what it created, changed or removed."""
        if entry.type == "BEGIN_TRANSACTION_RECORD":
            self._open = []
            return []
        if entry.type in {"END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"}:
            entries, self._open = self._open or [], None
            if entry.type.startswith("ABORT"):
                return []
            return [key for each in entries for key in self._apply(each)]
        if self._open is not None:
            self._open.append(entry)
            return []
        return self._apply(entry)

    def _apply(self, entry: Entry) -> list[ThingKey]:
        value = entry.value
        if value is None:
            return []
        if entry.type in _KEYS:
            key = (entry.type, *_KEYS[entry.type](value))
            if entry.type == "PRODUCER_IDS_RECORD":
                # An image does not know whom the last ids were given to (ProducerIdsImage.write).
                value = {**value, "brokerId": -1, "brokerEpoch": -1}
            self.things[key] = Thing(entry.type, entry.version or 0, value, entry)
            if entry.type == "PARTITION_RECORD":
                self._partitions.setdefault(value["topicId"], {})[key] = None
            elif entry.type == "TOPIC_RECORD":
                self.names[value["topicId"]] = value["name"]
            elif entry.type == "CONFIG_RECORD":
                settings = self.configs.setdefault((value["resourceType"], value["resourceName"]), {})
                settings.pop(value["name"], None)
                if value["value"] is not None:
                    settings[value["name"]] = value["value"]
            if (entry.type, True) in {
                ("CONFIG_RECORD", value.get("value") is None),
                ("CLIENT_QUOTA_RECORD", bool(value.get("remove"))),
                ("FEATURE_LEVEL_RECORD", value.get("featureLevel") == 0),
            }:
                del self.things[key]
            return [key]
        return _CHANGES[entry.type](self, entry, value) if entry.type in _CHANGES else []

    def change(self, key: ThingKey, entry: Entry, values: dict[str, Any]) -> list[ThingKey]:
        """Merge values into a thing, if it exists."""
        known = self.things.get(key)
        if known is None:
            return []
        self.things[key] = known._replace(value={**known.value, **values}, entry=entry)
        return [key]

    def remove(self, keys: list[ThingKey]) -> list[ThingKey]:
        """Remove things; return the keys of those that existed."""
        return [key for key in keys if self.things.pop(key, None) is not None]

    def change_partition(self, entry: Entry, value: dict[str, Any]) -> list[ThingKey]:
        """Merge a change of a partition (``PartitionRegistration.merge``)."""
        key = ("PARTITION_RECORD", value["topicId"], value["partitionId"])
        known = self.things.get(key)
        if known is None:
            return []
        merged = {name: value[name] for name in _PARTITION_LISTS if value.get(name) is not None}
        merged["partitionEpoch"] = known.value["partitionEpoch"] + 1
        leader = value.get("leader", _SAME_LEADER)
        if leader != _SAME_LEADER:
            merged |= {"leader": leader, "leaderEpoch": known.value["leaderEpoch"] + 1}
        recovery = value.get("leaderRecoveryState", _SAME_RECOVERY_STATE)
        if recovery != _SAME_RECOVERY_STATE:
            merged["leaderRecoveryState"] = recovery
        gone = [name for name in _ELR if merged.get(name) == []]
        changed = self.change(key, entry, merged)
        # Where there are none, their lists are not written (PartitionRegistration.toRecord).
        for name in gone:
            del self.things[key].value[name]
        return changed

    def change_broker(self, entry: Entry, value: dict[str, Any]) -> list[ThingKey]:
        """Merge a change of a broker's registration (``ClusterDelta``)."""
        changed: dict[str, Any] = {}
        if value.get("fenced", 0) in {_FENCE, _UNFENCE}:
            changed["fenced"] = value["fenced"] == _FENCE
        if value.get("inControlledShutdown", 0) != 0:
            changed["inControlledShutdown"] = True
        # An empty list of log dirs is no change, and one of cordoned ones is.
        if value.get("logDirs"):
            changed["logDirs"] = value["logDirs"]
        if value.get("cordonedLogDirs") is not None:
            changed["cordonedLogDirs"] = value["cordonedLogDirs"]
        return self.change(("REGISTER_BROKER_RECORD", value["brokerId"]), entry, changed)

    def remove_topic(self, value: dict[str, Any]) -> list[ThingKey]:
        """Remove a topic with its partitions and its configurations."""
        key = ("TOPIC_RECORD", value["topicId"])
        keys = [*self._partitions.pop(value["topicId"], {}), key]
        name = self.names.get(value["topicId"], "")
        settings = self.configs.pop((TOPIC_CONFIG, name), {})
        return self.remove([*keys, *(("CONFIG_RECORD", TOPIC_CONFIG, name, each) for each in settings)])

    def partitions_of(self, name: str) -> list[ThingKey]:
        """Return the keys of the partitions of the topic of a name."""
        return [key for topic_id, keys in self._partitions.items() if self.names.get(topic_id) == name for key in keys]

    def clear_elr(self, entry: Entry, value: dict[str, Any]) -> list[ThingKey]:
        """Clear the eligible leader replicas of a topic, or of all (``TopicsDelta.replay(ClearElrRecord)``)."""
        name, changed = value.get("topicName"), list[ThingKey]()
        for topic_id, keys in self._partitions.items():
            topic = self.things.get(("TOPIC_RECORD", topic_id))
            if name and (topic is None or topic.value["name"] != name):
                continue
            for key in keys:
                known = self.things.get(key)
                gone = [each for each in _ELR if known and known.value.get(each)]
                if known is not None and gone:
                    kept = {each: known.value[each] for each in known.value if each not in gone}
                    self.things[key] = known._replace(value=kept, entry=entry)
                    changed.append(key)
        return changed


_ELR = ("eligibleLeaderReplicas", "lastKnownElr")
_PARTITION_LISTS = ("isr", "replicas", "removingReplicas", "addingReplicas", "directories", *_ELR)


def _quota(value: dict[str, Any]) -> ThingKey:
    entity = tuple(sorted((each["entityType"], each["entityName"]) for each in value["entity"]))
    return (entity, value["key"])


# What tells a thing from others of its type.
_KEYS: dict[str, Callable[[dict[str, Any]], ThingKey]] = {
    "FEATURE_LEVEL_RECORD": lambda value: (value["name"],),
    "REGISTER_CONTROLLER_RECORD": lambda value: (value["controllerId"],),
    "REGISTER_BROKER_RECORD": lambda value: (value["brokerId"],),
    "TOPIC_RECORD": lambda value: (value["topicId"],),
    "PARTITION_RECORD": lambda value: (value["topicId"], value["partitionId"]),
    "CONFIG_RECORD": lambda value: (value["resourceType"], value["resourceName"], value["name"]),
    "CLIENT_QUOTA_RECORD": _quota,
    "PRODUCER_IDS_RECORD": lambda _: (),
    "ACCESS_CONTROL_ENTRY_RECORD": lambda value: (value["id"],),
    "USER_SCRAM_CREDENTIAL_RECORD": lambda value: (value["name"], value["mechanism"]),
    "DELEGATION_TOKEN_RECORD": lambda value: (value["tokenId"],),
    "ZK_MIGRATION_STATE_RECORD": lambda _: (),
}

_CHANGES: dict[str, Callable[[MetadataImage, Entry, dict[str, Any]], list[ThingKey]]] = {
    "PARTITION_CHANGE_RECORD": MetadataImage.change_partition,
    "BROKER_REGISTRATION_CHANGE_RECORD": MetadataImage.change_broker,
    "FENCE_BROKER_RECORD": lambda image, entry, value: image.change(
        ("REGISTER_BROKER_RECORD", value["id"]), entry, {"fenced": True}
    ),
    "UNFENCE_BROKER_RECORD": lambda image, entry, value: image.change(
        ("REGISTER_BROKER_RECORD", value["id"]), entry, {"fenced": False}
    ),
    "UNREGISTER_BROKER_RECORD": lambda image, _, value: image.remove([("REGISTER_BROKER_RECORD", value["brokerId"])]),
    "UNREGISTER_CONTROLLER_RECORD": lambda image, _, value: image.remove(
        [("REGISTER_CONTROLLER_RECORD", value["controllerId"])]
    ),
    "REMOVE_TOPIC_RECORD": lambda image, _, value: image.remove_topic(value),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": lambda image, _, value: image.remove(
        [("ACCESS_CONTROL_ENTRY_RECORD", value["id"])]
    ),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": lambda image, _, value: image.remove(
        [("USER_SCRAM_CREDENTIAL_RECORD", value["name"], value["mechanism"])]
    ),
    "REMOVE_DELEGATION_TOKEN_RECORD": lambda image, _, value: image.remove(
        [("DELEGATION_TOKEN_RECORD", value["tokenId"])]
    ),
    "CLEAR_ELR_RECORD": MetadataImage.clear_elr,
}
