"""Segments in tiered storage, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, storage
from kafkalog.tables import _rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath


def remote_segments(
    path: Paths | None = None,
    *,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    topics: str | list[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """List the copies of segments in tiered storage, which of them serve reads, and why the others do not.

    States come from ``__remote_log_metadata`` if the log dirs hold it, else from the plugin's manifests, else from the
    names and files of the tier. A copy is chosen as Kafka's broker chooses it: finished, of the log's own history of
    leader epochs, and not replaced by a later copy of the same offsets. Whether local segments have the same offsets
    makes no difference here.

    Parameters
    ----------
    path : path or list of paths, optional
        The log dirs of a broker; without them the tier is listed alone.
    remote : path
        The tier: what the plugin's keys begin with. Required.
    remote_layout : {"auto", "local", "aiven"} or RemoteLayout
        How objects are named and stored: as ``LocalTieredStorage`` does, as Aiven's plugin does, or as a class of your
        own says.
    keyring : dict of str to path, optional
        Private keys in PEM by the id of their pair, for tiers that Aiven's plugin encrypted. Listing needs none.
    topics : str or list of str, optional
        Topics to list. Default: all.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row a copy, by topic, topic id, partition and start offset.

        ====================== ==================== ===================================================================
        column                 type                 meaning
        ====================== ==================== ===================================================================
        topic, topicId         string               the topic, and its id as Kafka prints it
        partition              int32
        segmentId              string               the id of this copy
        startOffset, endOffset int64                its first and last offset; null where nothing tells
        epochs                 map<int32, int64>    the first offset in it of each leader epoch
        state                  string               Kafka's name of its state; null without a record of it
        source                 string               where the above is from: ``metadata``, ``manifest``, ``listing``
        bytes                  int64                bytes of its log before compression; null where nothing tells
        isChosen               bool                 whether it serves offsets of the log
        reason                 string               why it does not; of a chosen one its defects, if any
        ====================== ==================== ===================================================================

        The metadata of the table's schema has records that cannot be applied, under ``kafkalog.notes``.

    Raises
    ------
    FileNotFoundError
        If there is no log dir or no tier.
    ValueError
        Without ``remote``, or if the layout is neither given nor known by its names.

    Examples
    --------
    >>> table = kafkalog.tables.remote_segments("/data/kafka-logs", remote="/mnt/tier")  # doctest: +SKIP
    >>> table.filter(pc.field("isChosen") == False).select(["segmentId", "state", "reason"])  # doctest: +SKIP
    """
    import pyarrow as pa

    from kafkalog.tiers.opening import open_tier

    if remote is None:
        raise ValueError("remote is missing: the tier, that is what the keys of the storage plugin begin with")
    remote = storage.located(remote, storage_options, filesystem)
    path = None if path is None else storage.located(path, storage_options, filesystem)
    names = _arguments.names("topics", topics)
    tier = open_tier(path, remote, remote_layout, keyring, lambda topic, _: names is None or topic in names)
    serving = {run.segment.place for runs in tier.runs.values() for run in runs}
    rows = [
        {
            "topic": each.topic,
            "topicId": each.topic_id,
            "partition": each.partition,
            "segmentId": each.segment_id,
            "startOffset": each.start_offset,
            "endOffset": each.end_offset,
            "epochs": None if each.epochs is None else sorted(each.epochs.items()),
            "state": each.state,
            "source": each.source,
            "bytes": each.size,
            "isChosen": each.place in serving and each.reason is None,
            "reason": each.reason or (each.fault.text if each.fault else None),
        }
        for partition in tier.partitions.values()
        for each in partition.segments
    ]
    rows.sort(
        key=lambda row: (row["topic"], row["topicId"], row["partition"], row["startOffset"] or -1, row["segmentId"])
    )
    columns: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "topicId": pa.string(),
        "partition": pa.int32(),
        "segmentId": pa.string(),
        "startOffset": pa.int64(),
        "endOffset": pa.int64(),
        "epochs": pa.map_(pa.int32(), pa.int64()),
        "state": pa.string(),
        "source": pa.string(),
        "bytes": pa.int64(),
        "isChosen": pa.bool_(),
        "reason": pa.string(),
    }
    return _rows.table(columns, rows, tier.metadata.notes)
