"""Model of a cluster as far as another one can be made like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

PARTS = ("topics", "configs", "acls", "users", "quotas", "groups")
# Topic.INTERNAL_TOPICS, the metadata log, and the topic of TopicBasedRemoteLogMetadataManager.
INTERNAL = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state"}
)


class Topic(NamedTuple):
    """A topic; from folders only its partitions and its id are known."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    # "metadata" or "folders"
    source: str = "metadata"

    @property
    def is_internal(self) -> bool:
        """True for a topic that brokers create."""
        return self.name in INTERNAL


class Settings(NamedTuple):
    """Dynamic settings of what is no topic."""

    # as kafka-configs has it in the plural: broker, client-metrics, group
    kind: str
    # empty for the default of all brokers
    name: str
    configs: dict[str, str]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"all {self.kind}s"


class Acl(NamedTuple):
    """An access control entry, in the words of Kafka's enumerations."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    permission_type: str
    operation: str

    def __str__(self) -> str:
        resource = f"{self.resource_type} {self.pattern_type} {self.resource_name}"
        return f"{self.permission_type} {self.principal} from {self.host} {self.operation} on {resource}"


class ScramUser(NamedTuple):
    """A SCRAM credential; its secrets are None unless they were requested."""

    user: str
    mechanism: str
    iterations: int
    salt: str | None = None
    stored_key: str | None = None
    server_key: str | None = None

    def __str__(self) -> str:
        return f"{self.user} ({self.mechanism})"


class Quota(NamedTuple):
    """Limits of an entity: types (user, client-id, ip) with names, where None is the default of the type."""

    entity: tuple[tuple[str, str | None], ...]
    limits: dict[str, float]

    def __str__(self) -> str:
        return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in self.entity)


class GroupOffset(NamedTuple):
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Group(NamedTuple):
    """A group and its committed offsets."""

    name: str
    # classic, consumer, share, streams
    kind: str
    state: str
    offsets: tuple[GroupOffset, ...]


class LeftOut(NamedTuple):
    """Things that an output does not have, and why."""

    why: str
    names: list[str]


@dataclass(frozen=True)
class Cluster:
    """A cluster, as its disks show it. Lists are sorted."""

    parts: tuple[str, ...]
    paths: tuple[str, ...]
    cluster_id: str | None
    # where the metadata comes from, and the end of that log; None if no disk has it
    metadata_path: str | None
    metadata_end: int | None
    features: dict[str, int] = field(default_factory=dict)
    # of all topics, whatever was requested
    partitions: dict[str, int] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()
    settings: tuple[Settings, ...] = ()
    acls: tuple[Acl, ...] = ()
    users: tuple[ScramUser, ...] = ()
    quotas: tuple[Quota, ...] = ()
    groups: tuple[Group, ...] = ()
    # what was not read because it is secret, or is of no use elsewhere
    left_out: tuple[LeftOut, ...] = ()
    # what is unknown, or was read in spite of damage
    notes: tuple[str, ...] = ()
    # whether something is missing because of damage
    is_damaged: bool = False
