"""Rescue: rebuilds log dirs for a new cluster from the disks of a dead one, or from its tiered storage.

``rescue`` is the only function; the ``plan`` of its report has the findings and decisions. The package itself can be
called: ``kafkalog.rescue`` is both.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments
from kafkalog._renamed import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog.rescue.model import RescueReport
    from kafkalog.rescue.remote_tier import DeadTier
    from kafkalog.rescue.shared_work import Progress
    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath

__all__ = ["rescue"]


@renamed("node_id", "controller", "listener")
def rescue(
    paths: Paths | None = None,
    out: StrPath | None = None,
    *,
    node_id: int = 1,
    controller: str = "127.0.0.1:9093",
    listener: str = "127.0.0.1:9092",
    cluster_id: str | None = None,
    nodes: int = 1,
    topics: str | Iterable[str] | None = None,
    into: StrPath | None = None,
    topic_ids: Mapping[str, str] | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    link: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RescueReport:
    """Rebuild a startable cluster from a dead cluster's disks, or from its tiered storage.

    Every batch of every disk is read and its checksum compared; then a plan is made. The best metadata log gives
    topics, ids, configurations, ACLs, users and quotas. For each partition the replica that has every acknowledged
    record is used: one in sync (ISR) or eligible (ELR) if its disk is given, and among these, or else among all, the
    one with the latest leader epoch, then the longest. Damaged ranges are replaced from other replicas with the same
    history. The disks are never written.

    The result is a log dir of a node that is broker and controller. ``server.properties`` in it is enough to start;
    ``reassignment.json`` restores the replication factors when more brokers have joined. After an interruption the same
    call continues where the last one ended. ``kafkalog help rescue`` is a guide.

    Parameters
    ----------
    paths : path or list of paths, optional
        The log dirs of the dead nodes, brokers and controllers: as many as there are. Without any, only the tier
        (``remote``) is left.
    out : path, optional
        A new directory; not needed for a dry run. With one node it is the node's log dir; with several it contains one
        for each, ``node-1`` and so on.
    node_id : int
        ``node.id`` of the new node, or of the first one.
    controller, listener : str
        ``HOST:PORT`` of the new node, for controllers and for clients.
    cluster_id : str, optional
        The new cluster's id. Default: the old one.
    nodes : int
        Number of new nodes among which the partitions are divided.
    topics : str or iterable of str, optional
        Rescue only these topics, and the internal ones. Default: all.
    into : path, optional
        Instead of a new directory, a log dir of another cluster: its broker is stopped, and it has the topics, without
        records and with this node as their only replica. They are those of ``topics`` and ``topic_ids``; internal
        topics are not rescued. If the node is the only voter, leader epochs and producer ids above those of the records
        are appended to its metadata.
    topic_ids : mapping of str to str, optional
        The ids of topics in that cluster, if its metadata log is in another log dir of the node.
    remote : path or URL, optional
        The tiered storage of the dead cluster, which the new one continues to serve. Nothing of it is copied or
        written: topics have their old ids, logs begin where the tier ends, and ``__remote_log_metadata`` lists the
        segments.
    remote_layout, keyring, storage_options, filesystem
        As for :func:`kafkalog.scan`. Without the keys of an encrypted tier only the state of producers is missing.
    link : bool
        Share the blocks of closed segments with the disks: reflinks where the file system supports them (Btrfs, XFS),
        otherwise hard links, otherwise copies.
    dry_run : bool
        Only plan.
    progress : callable, optional
        Called periodically, in the caller's thread, with the phase (``read``, then ``written``), the bytes done and the
        bytes in all. An exception raised by the callback aborts the operation.

    Returns
    -------
    RescueReport
        The findings, the decisions and the result. ``is_complete`` is False if anything that was, or may have been,
        acknowledged is missing; ``plan.findings`` name it.

    Raises
    ------
    FileNotFoundError
        If a path does not exist.
    FileExistsError
        If ``out`` is not empty, or a partition of ``into`` has had records.
    ValueError
        For disks of different clusters, a directory that is not a log dir, an unknown topic; for partitions of ``into``
        that have other replicas; for a tier without segments where there are no disks.
    LogLockedError
        If the broker of ``into`` runs.
    OSError
        If the new disk is full, and the like. The same call then continues.

    Examples
    --------
    >>> report = kafkalog.rescue(["/mnt/node-1", "/mnt/node-2"], dry_run=True)  # doctest: +SKIP
    >>> [str(each) for each in report.plan.findings if each.severity == "error"]  # doctest: +SKIP
    """
    import os
    from pathlib import Path

    from kafkalog.rescue import output
    from kafkalog.rescue.model import RescueReport
    from kafkalog.rescue.planner import plan_rescue

    dry_run, link = _arguments.flag("dry_run", dry_run), _arguments.flag("link", link)
    node_id, nodes = _arguments.integer("node_id", node_id, 0), _arguments.integer("nodes", nodes, 1)
    place = _located(remote, remote_layout, keyring, storage_options=storage_options, filesystem=filesystem)
    disks = _disks(paths, remote)
    if into is not None:
        if place is not None:
            raise ValueError(
                "remote is for a new cluster (out), not for into: the keys of a tier have the topic ids of the dead "
                "cluster, and a cluster that exists gave its topics other ids, so that its broker looks for other keys"
            )
        if out is not None or cluster_id is not None or nodes != 1:
            raise ValueError("out, cluster_id and nodes are for a new cluster, and into is for one that exists")
        from kafkalog.rescue.existing_cluster import rescue_into

        # A log dir has one unfinished rescue, however it is spelled.
        log_dir = Path(os.path.realpath(_arguments.local(into)))
        return rescue_into(disks, log_dir, topics, topic_ids or {}, link=link, dry_run=dry_run, progress=progress)
    if topic_ids is not None:
        raise ValueError("topic_ids are for into")
    if out is None and not dry_run:
        raise ValueError("out is needed unless dry_run is set")
    if out is not None:
        of_tier = [] if place is None or not Path(place).is_dir() else [_arguments.local(place)]
        output.check_out(Path(_arguments.local(out)), [*disks, *of_tier])
    target = None if out is None else Path(os.path.realpath(_arguments.local(out)))
    tier = None if place is None else _tier(place, remote_layout, keyring, topics)
    plan = plan_rescue(disks or None, topics, progress, tier)
    if dry_run or target is None:
        return RescueReport(plan=plan, dry_run=True)
    return output.write(
        plan,
        target,
        node_id=node_id,
        nodes=nodes,
        controller=controller,
        listener=listener,
        cluster_id=cluster_id,
        link=link,
        progress=progress,
        snapshot=None if tier is None else tier.snapshot,
    )


def _disks(paths: Paths | None, remote: StrPath | None) -> list[str]:
    if paths is not None:
        return _arguments.local_paths(paths)
    if remote is None:
        raise ValueError("paths are missing: the log dirs of the dead nodes; only with remote there may be none")
    return []


def _located(
    remote: StrPath | None,
    layout: LayoutChoice,
    keyring: Mapping[str, StrPath] | None,
    **store: Any,
) -> StrPath | None:
    """Return where the tier is; None without one."""
    if remote is None:
        if layout != "auto" or keyring:
            raise ValueError("remote_layout and keyring describe a tier, which remote names")
        return None
    from kafkalog import storage

    place: StrPath = storage.located(remote, **store)
    return place


def _tier(
    place: StrPath, layout: LayoutChoice, keyring: Mapping[str, StrPath] | None, topics: str | Iterable[str] | None
) -> DeadTier:
    from kafkalog.rescue.remote_tier import DeadTier

    names = _arguments.names("topics", topics)
    return DeadTier(place, layout, keyring, None if names is None else set(names))


class _Callable(ModuleType):
    """The package itself, which its function of the same name does not replace."""

    __call__ = staticmethod(rescue)

    @property
    def __signature__(self) -> object:
        import inspect

        return inspect.signature(rescue)


sys.modules[__name__].__class__ = _Callable
