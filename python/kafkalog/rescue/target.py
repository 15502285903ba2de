"""The new cluster: its nodes, which partitions each of them gets, and the files it starts with."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog.rescue.model import Choice, RemoteTier, RescueImage

CONTROLLER_LISTENER = "CONTROLLER"
# MetadataVersion.IBP_3_9_IV0: the first that has a dynamic quorum (KIP-853).
_DYNAMIC_QUORUM = 21
_PORTS = 65_535


@dataclass(frozen=True)
class Node:
    """A node of the new cluster, which is both broker and controller."""

    id: int
    directory_id: str
    # host and port for controllers, and for clients and brokers
    controller: tuple[str, int]
    listener: tuple[str, int]
    # its log dir, relative to the output; empty for the output itself
    folder: str


@dataclass(frozen=True)
class Target:
    """The new cluster."""

    cluster_id: str
    nodes: tuple[Node, ...]
    # whether the quorum's voters are in the metadata (``kraft.version`` 1) rather than configured
    is_dynamic: bool

    def node_of(self, index: int) -> Node:
        """Return the node that gets the partition with this index among all."""
        return self.nodes[index % len(self.nodes)]

    def voters(self) -> str | None:
        """Return the ``VotersRecord`` as JSON, or None for a quorum that is configured."""
        if not self.is_dynamic:
            return None
        voters = [
            {
                "voterId": node.id,
                "voterDirectoryId": node.directory_id,
                "endpoints": [
                    {"name": CONTROLLER_LISTENER, "host": node.controller[0], "port": node.controller[1]},
                ],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
            for node in self.nodes
        ]
        return json.dumps({"version": 0, "voters": voters})


def random_id() -> str:
    """Return a random id as Kafka spells it; none that begins with a dash (``Uuid.randomUuid``)."""
    while True:
        spelled = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not spelled.startswith("-"):
            return spelled


def target_of(
    image: RescueImage,
    *,
    node_id: int,
    nodes: int,
    controller: str,
    listener: str,
    cluster_id: str,
    directory_ids: Sequence[str],
) -> Target:
    """Describe the new cluster."""
    controllers, listeners = _endpoints("controller", controller, nodes), _endpoints("listener", listener, nodes)
    taken = [*controllers, *listeners]
    for endpoint in taken:
        if taken.count(endpoint) > 1:
            raise ValueError(f"controller and listener have {endpoint[0]}:{endpoint[1]} twice; give each its own port")
    return Target(
        cluster_id=cluster_id,
        nodes=tuple(
            Node(
                node_id + n,
                directory_ids[n],
                controllers[n],
                listeners[n],
                "" if nodes == 1 else f"node-{node_id + n}",
            )
            for n in range(nodes)
        ),
        is_dynamic=metadata_version(image) >= _DYNAMIC_QUORUM,
    )


def metadata_version(image: RescueImage) -> int:
    """Return the level of the feature ``metadata.version``; without any metadata the one that a new image gets."""
    levels = {value["name"]: value["featureLevel"] for value in image.values("FEATURE_LEVEL_RECORD")}
    return int(levels.get("metadata.version", _DYNAMIC_QUORUM))


def _endpoints(name: str, text: str, nodes: int) -> list[tuple[str, int]]:
    given = [_endpoint(name, each) for each in text.split(",")]
    if len(given) == 1:
        host, port = given[0]
        given = [(host, port + 2 * n) for n in range(nodes)]
    if len(given) != nodes or any(port > _PORTS for _, port in given):
        raise ValueError(f"{name} must be one HOST:PORT, or one for each of {nodes} nodes, not {text!r}")
    return given


def _endpoint(name: str, text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= _PORTS:
        raise ValueError(f"{name} must be HOST:PORT, not {text!r}")
    return host, int(port)


def meta_properties(target: Target, node: Node) -> str:
    """Return the text of a node's ``meta.properties``."""
    return f"version=1\nnode.id={node.id}\ncluster.id={_escaped(target.cluster_id)}\ndirectory.id={node.directory_id}\n"


# Storage plugins by the layout that they store.
_PLUGINS = {
    "local": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "aiven": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
}


def _of_tier(tier: RemoteTier, factor: int) -> list[str]:
    """Return the settings with which a node finds the segments in a tier."""
    plugin = _PLUGINS.get(tier.layout)
    manager = "remote.log.storage.manager.class.name"
    lines = [
        "# Tiered storage. Set rsm.config.* and the class path of the plugin as the old nodes had them.",
        "remote.log.storage.system.enable=true",
        f"#{manager}=" if plugin is None else f"{manager}={plugin}",
    ]
    if tier.layout == "local" and tier.folder is not None:
        lines.append(f"rsm.config.dir={_escaped(tier.folder)}")
    return [
        *lines,
        "remote.log.metadata.manager.listener.name=PLAINTEXT",
        f"rlmm.config.remote.log.metadata.topic.num.partitions={tier.metadata_partitions}",
        f"rlmm.config.remote.log.metadata.topic.replication.factor={factor}",
    ]


def server_properties(
    target: Target, node: Node, log_dir: str, image: RescueImage, tier: RemoteTier | None = None
) -> str:
    """Return the text of a configuration with which a node starts."""
    lines = [
        "# Enough to start this node with kafka-server-start. Set listeners, security, replication factors and",
        "# retention as the old nodes had them.",
        "process.roles=broker,controller",
        f"node.id={node.id}",
    ]
    endpoints = [(each, _spelled(each.controller)) for each in target.nodes]
    if target.is_dynamic:
        lines += [f"controller.quorum.bootstrap.servers={','.join(endpoint for _, endpoint in endpoints)}"]
    else:
        voters = ",".join(f"{each.id}@{endpoint}" for each, endpoint in endpoints)
        lines += [f"controller.quorum.voters={voters}"]
    listener, controller = _spelled(node.listener), _spelled(node.controller)
    factor = len(target.nodes)
    lines += [
        f"listeners=PLAINTEXT://{listener},{CONTROLLER_LISTENER}://{controller}",
        f"advertised.listeners=PLAINTEXT://{listener}",
        f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT",
        "inter.broker.listener.name=PLAINTEXT",
        f"controller.listener.names={CONTROLLER_LISTENER}",
        f"log.dirs={_escaped(log_dir)}",
        "# For internal topics that do not exist yet.",
        f"offsets.topic.replication.factor={factor}",
        f"transaction.state.log.replication.factor={factor}",
        "transaction.state.log.min.isr=1",
        f"share.coordinator.state.topic.replication.factor={factor}",
        "share.coordinator.state.topic.min.isr=1",
    ]
    if tier is not None:
        lines += _of_tier(tier, factor)
    if acls := len(image.values("ACCESS_CONTROL_ENTRY_RECORD")):
        lines += [
            f"# The metadata has {acls} ACLs. They apply once there is an authorizer, and listeners with users:",
            "#authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ]
    return "\n".join(lines) + "\n"


def _spelled(endpoint: tuple[str, int]) -> str:
    return f"{_escaped(endpoint[0])}:{endpoint[1]}"


def _escaped(text: str) -> str:
    """Spell a value of Java's properties."""
    for char, spelled in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(char, spelled)
    return text


def reassignment(
    choices: Iterable[Choice], target: Target, replicas: Mapping[tuple[str, int], Sequence[int]]
) -> dict[str, Any]:
    """Return what ``kafka-reassign-partitions`` takes to restore the replication factors.

    A partition's first replica is the node that it is on. The others are brokers of the old cluster's ids, in turn,
    which have to join the new cluster first; ids that the new nodes have taken stand for these.
    """
    ids = sorted({each for old in replicas.values() for each in old} | {node.id for node in target.nodes})
    partitions = []
    for index, choice in enumerate(choices):
        first = target.node_of(index).id
        others = [each for each in ids if each != first]
        others = others[index % max(len(others), 1) :] + others[: index % max(len(others), 1)]
        factor = max(len(replicas.get((choice.topic, choice.partition), (first,))), 1)
        wanted = [first, *others[: factor - 1]]
        partitions.append({"topic": choice.topic, "partition": choice.partition, "replicas": wanted})
    return {"version": 1, "partitions": partitions}
