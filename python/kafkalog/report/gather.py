"""Puts the questions of the other commands to log dirs, and adds up the answers."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kafkalog import __version__, _core, storage, tables, tools
from kafkalog._times import with_millis
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.report.batches import BatchSums, ranges_by_topic, timeline_for
from kafkalog.report.model import Findings, Overview, PartitionFigures, TopicDetail, TopicFigures
from kafkalog.report.partitions import Progress, Unread, asked, listed, planned
from kafkalog.report.retention import RetentionSums
from kafkalog.tables._described import offsets_of, states_of
from kafkalog.tables._partial import COVERAGE, UNREAD, missing_line
from kafkalog.tables._rows import notes_of
from kafkalog.tools.verification import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from kafkalog.report.model import Row
    from kafkalog.report.partitions import Listed

T = TypeVar("T")

Verified = Literal["default", "all", "headers", "none"]
"""Reading mode of ``verify``: every byte, headers and indexes, or nothing; by default every byte of small logs."""

# So many bytes of logs are read in a second or two; of more, what takes no longer for being large.
_SMALL = 1 << 30
# What is shown in full; of the rest the sums.
MOST_DETAILS, MOST_TOPICS, MOST_PARTITIONS, MOST_FINDINGS, MOST_ROWS = 20, 200, 600, 300, 300
OTHER_TOPICS = "other topics"
_METADATA, _OFFSETS, _SCHEMAS = "__cluster_metadata", "__consumer_offsets", "_schemas"
_SCHEMA_COLUMNS = ("context", "subject", "version", "id", "schemaType", "deleted", "logOffset", "logTimestamp")
_SEVERITIES = ("error", "warning", "info")
_DISK_SUMS = ("files", "bytes", "allocatedBytes", "bytesFreeable")
_SUMS = (
    *("partitions", "segments", "disk_bytes", "size", "batches", "records", "legacy_batches", "bytes_freeable"),
    *("kept_bytes", "dirty_bytes", "findings"),
)
_NO_LAG = {"partitions": 0, "lag": 0, "maxLag": 0, "unknown": 0}
# MetadataVersion: the level of the feature metadata.version, from 1 on.
_METADATA_VERSIONS = (
    *("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1"),
    *("3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0"),
    *("3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
    "4.4-IV0",
)


def gather(
    paths: Sequence[str], now: int | None = None, *, verified: Verified = "default", progress: Progress | None = None
) -> Overview:
    """Read log dirs, or the folders of partitions, and return what a report shows.

    Everything is from headers and indexes; findings are from every byte, too, where ``verified`` says so. What cannot
    be read is noted, and the rest is shown.
    """
    places = storage.located(list(paths))
    with storage.one_listing(filter(_core.is_mounted, places)):
        return _Gathering(places, now, progress or Progress()).done(verified=verified)


class _Gathering:
    def __init__(self, paths: Sequence[str], now: int | None, progress: Progress) -> None:
        self._paths = list(dict.fromkeys(paths))
        self._progress, self._unread = progress, Unread()
        self._places: list[Listed] = []
        read_at = time.time_ns() // 1_000_000
        self._all = Overview(__version__, read_at, read_at if now is None else now)
        self._topics: dict[str, TopicFigures] = {}
        self._partitions: list[PartitionFigures] = []
        self._notes: dict[str, None] = {}

    def done(self, *, verified: Verified) -> Overview:
        every = self._all
        places = self._places = self._listed()
        every.dirs = [place.figures for place in places]
        self._add_level()
        self._add_partitions(places)
        self._add_disk_and_retention(places)
        every.findings = Findings(verified=False) if verified == "none" else self._findings(verified)
        self._add_details(places)
        self._add_transactions()
        self._add_groups()
        self._add_schemas()
        self._add_sums()
        every.findings.unread = list(self._unread.lines)
        every.notes = list(self._notes)
        return every

    def _listed(self) -> list[Listed]:
        """List the paths; of several, one that cannot be listed is noted."""
        if len(self._paths) == 1:
            return [listed(self._paths[0], self._unread)]
        found: list[Listed] = []
        for path in self._paths:
            with self._unread.aside():
                found.append(listed(path, self._unread))
        # None: the first error says why.
        return found or [listed(self._paths[0], self._unread)]

    def _add_level(self) -> None:
        self._progress.begin("metadata log")
        table = self._table(
            tables.features, _METADATA, "no metadata log here: topics are taken to have default settings"
        )
        rows = [] if table is None else table.to_pylist()
        level = next((row["featureLevel"] for row in rows if row["name"] == "metadata.version"), None)
        if level is not None:
            known = 0 < level <= len(_METADATA_VERSIONS)
            self._all.metadata_version = _METADATA_VERSIONS[level - 1] if known else f"level {level}"

    def _add_partitions(self, places: Iterable[Listed]) -> None:
        magics: set[int] = set()
        for place in places:
            self._progress.begin("of the partitions counted", len(place.folders))
            magics |= asked(place, self._unread, self._progress, self._partitions.append)
            for folder in place.folders:
                topic = self._topics.setdefault(folder.topic, TopicFigures(folder.topic))
                topic.partitions += 1
                topic.disk_bytes += place.disk_bytes.get(folder.path, 0)
        for each in self._partitions:
            _add(self._topics[each.topic], each)
        self._all.magics = sorted(magics)

    def _add_disk_and_retention(self, places: Iterable[Listed]) -> None:
        kinds: dict[str, Row] = {}
        sums = RetentionSums(self._all.now)
        for place in places:
            path = place.figures.path
            self._progress.begin(f"retention of {path}")
            freeable = 0
            with self._unread.aside():
                table = tools.explain(path, self._all.now, on_corrupt="skip")
                here = {(each.topic, each.partition): each for each in self._partitions if each.log_dir == path}
                freeable = sums.add(table, self._topics, here)
                self._note_what_is_missing(table)
            with self._unread.aside():
                for row in tools.disk_usage(path).to_pylist():
                    if row["kind"] == "log":
                        row["bytesFreeable"] = freeable
                    place.figures.disk_bytes += row["bytes"]
                    place.figures.allocated_bytes += row["allocatedBytes"]
                    kind = kinds.setdefault(row["kind"], {**row, **dict.fromkeys(_DISK_SUMS, 0)})
                    for name in _DISK_SUMS:
                        kind[name] += row[name]
        self._all.disk = list(kinds.values())
        self._all.retention = sums.figures()

    def _findings(self, verified: Verified) -> Findings:
        import pyarrow as pa
        import pyarrow.compute as pc

        is_small = sum(each.size for each in self._partitions) <= _SMALL
        headers_only = verified == "headers" or (verified == "default" and not is_small)
        watched = _core.VerifyProgress()
        self._progress.begin("verified", watched=watched)
        table: Any = with_millis(table_of(self._paths, None, None, watched, headers_only=headers_only))
        counts = Counter(table["severity"].to_pylist())
        general = {code: text for code, _, text in _core.verify_codes()}
        by_code = table.group_by(["severity", "code"]).aggregate([("file", "count")]).to_pylist()
        codes = [
            {
                "severity": row["severity"],
                "code": row["code"],
                "findings": row["file_count"],
                "advice": general.get(row["code"]),
            }
            for row in sorted(by_code, key=lambda row: (_SEVERITIES.index(row["severity"]), row["code"]))
        ]
        rows: list[Row] = []
        for severity in _SEVERITIES:
            some = table.filter(pc.is_in(table["severity"], pa.array([severity])))
            rows += some.slice(0, MOST_FINDINGS - len(rows)).to_pylist()
            if severity != "info":
                for row in some.group_by("topic").aggregate([("file", "count")]).to_pylist():
                    if row["topic"] in self._topics:
                        self._topics[row["topic"]].findings += row["file_count"]
        return Findings(
            headers_only=headers_only,
            errors=counts["error"],
            warnings=counts["warning"],
            infos=counts["info"],
            codes=codes,
            rows=rows,
        )

    def _add_details(self, places: Iterable[Listed]) -> None:
        """Read the headers of all batches, and show the largest topics each, the others as one."""
        ranked = sorted(self._topics.values(), key=lambda topic: (-topic.size, topic.topic))
        shown = {topic.topic for topic in ranked[:MOST_DETAILS] if topic.batches}
        others = _summed(OTHER_TOPICS, ranked[MOST_DETAILS:])
        now = self._all.now
        sums = {
            topic.topic: BatchSums(timeline_for(topic.min_timestamp, topic.max_timestamp, now), now)
            for topic in (*ranked, others)
            if topic.topic in shown or (topic is others and topic.batches)
        }
        self._progress.begin("of the batch headers read", sum(topic.size for topic in ranked))
        folders: dict[tuple[str, int], str] = {}
        for place in places:
            # The folder of a sample: any replica will do.
            folders |= {(folder.topic, folder.partition): folder.path for folder in place.folders}
            ranges = planned([folder.path for folder in place.folders], self._unread)
            for name, some in ranges_by_topic(ranges).items():
                with self._unread.aside():
                    chosen = sums.get(name) if name in shown else sums.get(OTHER_TOPICS)
                    if chosen is not None:
                        chosen.read(some, self._progress.add)
        self._progress.begin("compression ratios")
        self._all.details = [
            TopicDetail(name, each.codecs(lambda topic, partition: folders[topic, partition]), each.figures())
            for name, each in sums.items()
        ]

    def _add_transactions(self) -> None:
        self._progress.begin("open transactions")
        table = self._table(tables.open_transactions)
        rows = [] if table is None else with_millis(table).to_pylist()
        rows.sort(key=lambda row: (row["isHanging"] is False, row["firstTimestamp"] or 0))
        self._all.summary.open_transactions = len(rows)
        self._all.summary.hanging_transactions = sum(row["isHanging"] is True for row in rows)
        self._all.transactions = self._first(rows, MOST_ROWS, "open transactions")

    def _add_groups(self) -> None:
        self._progress.begin("groups")
        missing = "no consumer groups here: no log dir that was given has a partition of __consumer_offsets"
        members, lag = (self._table(ask, _OFFSETS, missing) for ask in (tables.consumer_groups, tables.lag))
        if members is None or lag is None:
            return
        plain = with_millis(members).to_pylist()
        rows = offsets_of(plain, with_millis(lag).to_pylist())
        groups = {row["group"]: {**row, **_NO_LAG} for row in states_of(plain)}
        for row in rows:
            _add_lag(groups[row["group"]], row)
        ranked = sorted(groups.values(), key=lambda row: (-row["lag"], row["group"]))
        rows.sort(key=lambda row: (-(row["lag"] or 0), row["group"], row["topic"], row["partition"]))
        summary = self._all.summary
        summary.groups = len(ranked)
        summary.groups_behind = sum(row["lag"] > 0 for row in ranked)
        summary.lag = sum(row["lag"] for row in ranked)
        self._all.groups = self._first(ranked, MOST_ROWS, "groups")
        self._all.offsets = self._first(rows, MOST_ROWS, "offsets of groups")

    def _add_schemas(self) -> None:
        if _SCHEMAS not in self._topics:
            return
        self._progress.begin("schemas")
        table = self._table(tables.schemas, _SCHEMAS)
        rows = [] if table is None else with_millis(table.select(list(_SCHEMA_COLUMNS))).to_pylist()
        self._all.summary.schemas = len(rows)
        self._all.schemas = self._first(rows, MOST_ROWS, "schemas")

    def _add_sums(self) -> None:
        every, whole = self._all, _summed("", self._topics.values())
        summary: Any = every.summary
        for name in (*_SUMS, "min_timestamp", "max_timestamp"):
            if hasattr(summary, name):
                setattr(summary, name, getattr(whole, name))
        summary.topics = len(self._topics)
        summary.disk_bytes = sum(row["bytes"] for row in every.disk)
        summary.allocated_bytes = sum(row["allocatedBytes"] for row in every.disk)
        # Leftovers, too, which are not of a topic.
        summary.bytes_freeable = sum(row["bytesFreeable"] for row in every.disk)
        every.beside_bytes = summary.disk_bytes - whole.disk_bytes
        every.beside_freeable = summary.bytes_freeable - whole.bytes_freeable
        ranked = sorted(self._topics.values(), key=lambda topic: (-topic.disk_bytes, topic.topic))
        every.topics = ranked[:MOST_TOPICS]
        if len(ranked) > MOST_TOPICS:
            every.other_topics = _summed(OTHER_TOPICS, ranked[MOST_TOPICS:])
        largest = sorted(self._partitions, key=lambda each: (-each.disk_bytes, each.topic, each.partition))
        every.partitions = self._first(largest, MOST_PARTITIONS, "partitions")

    def _first(self, rows: list[T], most: int, what: str) -> list[T]:
        if len(rows) > most:
            self._note(f"{len(rows):,} {what}, of which {most} are shown")
        return rows[:most]

    def _table(self, ask: Callable[..., pa.Table], topic: str | None = None, missing: str = "") -> pa.Table | None:
        """Ask for a table, of an internal topic if one is named; None if it is not here, or cannot be read."""
        skips = {"on_corrupt": "skip"} if ask is not tables.features else {}
        # The folder of another topic's partition has none of it.
        places = [place for place in self._places if topic is None or place.topic in {None, topic}]
        if not places:
            self._note(missing)
            return None
        try:
            table = ask([place.figures.path for place in places], **skips)
        except UnknownTopicOrPartitionError:
            self._note(missing)
        except (KafkaLogError, OSError, ValueError) as error:
            self._unread.add(error)
        else:
            self._note_what_is_missing(table)
            return table
        return None

    def _note_what_is_missing(self, table: pa.Table) -> None:
        """Note what a table was not made of."""
        said = table.schema.metadata or {}
        for error in json.loads(said.get(UNREAD, b"[]")):
            self._unread.add(error)
        line = missing_line(json.loads(said[COVERAGE])) if COVERAGE in said else None
        for note in [*notes_of(table), *([] if line is None else [line])]:
            self._note(note)

    def _note(self, text: str) -> None:
        if text and len(self._notes) < MOST_ROWS:
            self._notes[text] = None


def _add(topic: TopicFigures, each: PartitionFigures) -> None:
    """Add a partition to its topic; its bytes on disk are there already."""
    for name in ("segments", "size", "batches", "records", "legacy_batches"):
        setattr(topic, name, getattr(topic, name) + getattr(each, name))
    _widen(topic, each)


def _widen(one: TopicFigures, other: TopicFigures | PartitionFigures) -> None:
    for name, choose in (("min_timestamp", min), ("max_timestamp", max)):
        times = [time for time in (getattr(one, name), getattr(other, name)) if time is not None]
        setattr(one, name, choose(times) if times else None)


def _summed(name: str, topics: Iterable[TopicFigures]) -> TopicFigures:
    """Return topics as one."""
    found = TopicFigures(name)
    for topic in topics:
        for each in _SUMS:
            setattr(found, each, getattr(found, each) + getattr(topic, each))
        _widen(found, topic)
        if topic.next_time is not None:
            if found.next_time is None or topic.next_time < found.next_time:
                found.next_time, found.next_bytes = topic.next_time, topic.next_bytes
            elif topic.next_time == found.next_time:
                found.next_bytes += topic.next_bytes
            found.rest_by = max(found.rest_by or topic.next_time, topic.rest_by or topic.next_time)
    return found


def _add_lag(group: Row, row: Row) -> None:
    group["partitions"] += 1
    if row["lag"] is None:
        group["unknown"] += 1
    else:
        group["lag"] += max(row["lag"], 0)
        group["maxLag"] = max(group["maxLag"], row["lag"])
