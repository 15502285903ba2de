"""The compiled module: small and private. The documented face is the Python around it."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, final

__version__: str
# The note of a job that has not ended (``kafkalog.spark.append_job``).
JOB_NOTE: str
build_profile: Literal["release", "debug"]

@final
class SegmentRange:
    """One ``.log`` file, or a piece of it, as it was at planning; frozen and picklable."""

    def __new__(
        cls,
        *,
        base_offset: int,
        file_name: str,
        size: int,
        is_active: bool = False,
        start_position: int = 0,
        next_base_offset: int | None = None,
        aborted: Sequence[Sequence[int]] | None = None,
        start_offset: int | None = None,  # base_offset
        end_position: int | None = None,
        end_offset: int | None = None,
    ) -> SegmentRange: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def file_name(self) -> str: ...
    # bytes of the file that may be read
    @property
    def size(self) -> int: ...
    @property
    def is_active(self) -> bool: ...
    # the start of a batch
    @property
    def start_position(self) -> int: ...
    @property
    def next_base_offset(self) -> int | None: ...
    # under read_committed: producer id, first and last offset of each aborted transaction that overlaps it
    @property
    def aborted(self) -> list[list[int]] | None: ...
    # offsets below belong to another piece
    @property
    def start_offset(self) -> int: ...
    # where the next piece begins
    @property
    def end_position(self) -> int | None: ...
    @property
    def end_offset(self) -> int | None: ...
    # bytes that may have to be read
    @property
    def bytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class PartitionRange:
    """Consecutive segments of one partition, and which records of them count; frozen and picklable."""

    def __new__(
        cls,
        *,
        folder: str,
        topic: str,
        partition: int,
        segments: Sequence[SegmentRange],
        start_offset: int = 0,
        end_offset: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
    ) -> PartitionRange: ...
    @property
    def folder(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int | None: ...
    # a new list of copies on each access
    @property
    def segments(self) -> list[SegmentRange]: ...
    @property
    def segment_count(self) -> int: ...
    @property
    def min_timestamp(self) -> int | None: ...
    @property
    def max_timestamp(self) -> int | None: ...
    # bytes that may have to be read
    @property
    def bytes(self) -> int: ...
    # the same with other segments
    def with_segments(self, segments: Sequence[SegmentRange]) -> PartitionRange: ...
    # the same of another topic and partition; None for what is unknown
    def with_name(self, topic: str | None, partition: int | None) -> PartitionRange: ...
    def to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

def range_from_json(json: str) -> PartitionRange: ...
def segment_from_json(json: str) -> SegmentRange: ...

# a schema: id, GUID or topic; format, or None to judge by the text; text; names and texts of imports
_Given: TypeAlias = tuple[int | None, str | None, str | None, str | None, str, list[tuple[str, str]]]
# a version, a text, or a text with names and texts of its imports
_ReaderSchema: TypeAlias = int | str | tuple[str, list[tuple[str, str]]]
_Partitions: TypeAlias = list[int] | dict[str, list[int]] | None
_Starting: TypeAlias = Literal["earliest", "oldest"] | int | dict[str, dict[int, int]]
_IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
_OnCorrupt: TypeAlias = Literal["raise", "skip"]
_Ending: TypeAlias = Literal["latest", "high_watermark"] | int | dict[str, dict[int, int]]

@final
class RecordStream:
    """A one-shot Arrow C stream; taking it twice is a ValueError."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    # whether the stream will have exactly the requested schema
    def honours(self, requested_schema: object) -> bool: ...
    # seconds_waited is a float, the other counts are int
    def metrics(self) -> dict[str, Any]: ...
    # records of internal topics that could not be decoded so far
    def undecoded(self) -> int: ...
    # records that a replay could not apply so far: how many, and the first of them by name
    def refused(self) -> tuple[int, list[str]]: ...
    # what was skipped as damaged, as an arrow_array_stream capsule
    def lost(self) -> object: ...
    # The error that ended the stream, as an exception with path, position and offset: the C stream itself carries only
    # errno and text. None if there was none.
    def error(self) -> BaseException | None: ...
    # whether the reader of the C stream will ask for that; if not, an interruption is raised in the main thread again
    def will_ask(self, *, will: bool) -> None: ...
    # the ranges that a reader of batches would read; it is then exhausted
    def take_batch_ranges(self) -> list[PartitionRange]: ...
    def close(self) -> None: ...

# offsets as they are now (without pending only those that were committed), or every change of one
def table_offsets(paths: list[str], *, history: bool = False, pending: bool = True) -> RecordStream: ...

# key and value of a record of an internal topic, from Kafka's JSON
def encode_record(
    topic: str, kind: str, version: int, key: str | None, value: str | None
) -> tuple[bytes | None, bytes | None]: ...

# the batch that aborts the open transaction of a producer (id and epoch); milliseconds
def abort_marker(
    offset: int, leader_epoch: int, producer: tuple[int, int], coordinator_epoch: int, timestamp: int
) -> bytes: ...

# records as (kind, version, JSON); voters as the JSON of a VotersRecord; the file's path
def write_metadata_snapshot(
    folder: str,
    end_offset: int,
    epoch: int,
    records: Sequence[tuple[str, int, str]],
    *,
    timestamp: int,
    voters: str | None = None,
) -> str: ...

# what to replay of a metadata log; what was skipped, what is missing even so (an error unless partial), how many
# records cannot be applied, and the first of them by name
def table_metadata(
    paths: list[str], *, history: bool = False, secrets: bool = False, partial: bool = False
) -> tuple[RecordStream, tuple[list[str], str | None, int, list[str]]]: ...

# every record of internal topics, decoded
def table_coverage(paths: list[str], topic: str) -> tuple[list[int], int, bool]: ...
def table_open_transactions(paths: list[str]) -> tuple[Rows, list[Exception]]: ...
def table_producers(paths: list[str]) -> tuple[Rows, list[Exception]]: ...

# a registry's schemas or their changes; ids with several texts, how many records were left out, the first of them by
# name, ranges that were skipped as damaged
@final
class ChunkReader:
    def __new__(
        cls,
        *,
        compressed: bool,
        private_key: str | None = None,
        wrapped: bytes | None = None,
        aad: bytes | None = None,
    ) -> ChunkReader: ...
    def decode(self, stored: bytes, position: int, sizes: Sequence[tuple[int, int]], name: str) -> bytes: ...
    def open(self, stored: bytes, position: int, name: str) -> bytes: ...

def decompress_sizes(stored: bytes, limit: int) -> bytes: ...
def table_schemas(
    paths: list[str], *, topic: str, history: bool = False, on_corrupt: _OnCorrupt = "raise"
) -> tuple[list[Rows], tuple[list[str], int, list[str], Rows]]: ...
def table_records(
    paths: list[str], *, topics: Sequence[str] | None = None, secrets: bool = False, embedded: bool = False
) -> RecordStream: ...
def plan(
    paths: list[str],
    *,
    topics: Sequence[str] | None = None,
    topic_pattern: str | None = None,
    partitions: _Partitions = None,
    starting_offsets: _Starting | None = None,  # earliest
    ending_offsets: _Ending | None = None,  # latest
    starting_timestamp: int | dict[str, dict[int, int]] | None = None,
    ending_timestamp: int | dict[str, dict[int, int]] | None = None,
    isolation_level: _IsolationLevel = "read_uncommitted",
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | None = None,
    max_timestamp: int | None = None,
    include_inactive: bool = False,
    allow_missing: bool = False,
    on_corrupt: _OnCorrupt = "raise",
) -> list[PartitionRange]: ...
def pieces(planned: list[PartitionRange], piece_bytes: int) -> list[list[PartitionRange]]: ...

# folder, topic, partition, log start offset, end offset
def bounds(
    paths: list[str],
    *,
    topics: Sequence[str] | None = None,
    topic_pattern: str | None = None,
    partitions: _Partitions = None,
    ending_offsets: _Ending | None = None,  # latest
    isolation_level: _IsolationLevel = "read_uncommitted",
    include_inactive: bool = False,
    allow_missing: bool = False,
    oldest: bool = False,  # a log start that hides every record does not count
) -> list[tuple[str, str, int, int, int]]: ...
def check_log_dir(path: str) -> None: ...
def check_load(log_dirs: list[str], topic: str, partition: int, settings: list[tuple[str, str]]) -> None: ...
def check_output(out: str, sources: list[str]) -> None: ...
def local_path(path: str) -> str: ...

# A provider has the methods list, stat and read of ``kafkalog.storage.Storage``.
def mount_storage(root: str, provider: object, retries: int, timeout: float) -> None: ...
def is_mounted(path: str) -> bool: ...
def forget_listings(path: str) -> None: ...
def path_kind(path: str) -> Literal["folder", "file"] | None: ...

# name, whether it is a folder, length, modification time
def list_folder(path: str) -> list[tuple[str, bool, int, int]]: ...
def read_range(path: str, start: int, length: int) -> bytes: ...
def divide(planned: PartitionRange, borders: list[int]) -> list[PartitionRange]: ...
def scan_ranges(
    ranges: list[PartitionRange],
    *,
    columns: Sequence[str] | None = None,
    include_control: bool = False,
    check_crcs: bool = True,
    on_corrupt: _OnCorrupt = "raise",
    layout: Literal["binary", "view"] = "binary",
    timestamp_unit: Literal["ms", "us"] = "ms",
    batch_rows: int = 65_536,
    batch_bytes: int = 2_097_152,
    threads: int = 1,
    latest_per_key: bool = False,
    tombstones: bool = False,
    containing: bytes | None = None,
    matching: str | None = None,
    search_in: Sequence[str] | None = None,  # value
    is_inverted: bool = False,
    limit: int | None = None,
    decoding: Decoding | None = None,
    # what the header of a batch has to say for it to be read; the ranges are inclusive
    is_control: bool | None = None,
    producer_ids: tuple[int, int] | None = None,
    magics: tuple[int, int] | None = None,
) -> RecordStream: ...
def find_schemas_of(
    ranges: list[PartitionRange],
    paths: list[str],
    *,
    log_dirs: list[str] | None = None,
    given: list[_Given] | None = None,
    on_corrupt: _OnCorrupt = "raise",
) -> FoundSchemas: ...
def decoding_from_json(json: str) -> Decoding: ...
def check_search(containing: bytes | None, matching: str | None, search_in: Sequence[str]) -> None: ...
def scan_batch_ranges(
    ranges: list[PartitionRange], *, check_crcs: bool = True, on_corrupt: _OnCorrupt = "raise"
) -> RecordStream: ...

@final
class Decoding:
    """The decoding of the keys and values of a scan, with all schemas for it; frozen and picklable."""

    def to_json(self) -> str: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...
    def projected(self, *, key: list[list[str]] | None = None, value: list[list[str]] | None = None) -> Decoding: ...

@final
class FoundSchemas:
    """The schemas for a scan; frozen."""

    def plan(
        self,
        ranges: list[PartitionRange],
        *,
        sides: str,
        reader: _ReaderSchema | None = None,  # latest
        readers: dict[str, _ReaderSchema] | None = None,
        decode_as: str = "struct",
        on_undecoded: str = "raise",
    ) -> Decoding: ...
    def refresh(self, decoding: Decoding) -> Decoding: ...

@final
class LogDir:
    """One log dir as it was when it was opened."""

    def __new__(cls, path: str, *, allow_others: bool = False) -> LogDir: ...
    @property
    def path(self) -> str: ...
    @property
    def meta(self) -> dict[str, str] | None: ...
    # {"recovery-point-offset-checkpoint": [(topic, partition, offset), ...], ...}; absent files are absent keys
    @property
    def checkpoints(self) -> dict[str, list[tuple[str, int, int]]]: ...
    @property
    def clean_shutdown(self) -> bool: ...
    # (folder, topic, partition, state) with state "live", "delete", "future" or "stray"; sorted
    def folders(self) -> list[tuple[str, str, int, Literal["live", "delete", "future", "stray"]]]: ...
    # for each folder: topic id, log start offset, high watermark, leader epochs, (base offset, size) of each segment,
    # and what could not be read
    def identities(
        self,
    ) -> list[tuple[str | None, int, int | None, list[tuple[int, int]], list[tuple[int, int]], list[str]]]: ...

@final
class DirState:
    """Facts about the partitions of a log dir, read once for opening many of them."""

    def __new__(cls, log_dir: str) -> DirState: ...

@final
class PartitionLog:
    """One partition folder as it was when it was opened."""

    # with what its log dir says: a folder that a listing of that log dir found
    def __new__(cls, path: str, log_dir: DirState | None = None) -> PartitionLog: ...
    @property
    def path(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def state(self) -> Literal["live", "delete", "future", "stray"]: ...
    @property
    def topic_id(self) -> str | None: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int | None: ...
    @property
    def leader_epochs(self) -> list[tuple[int, int]]: ...
    # (base_offset, file name, size, is_active, modified ms)
    def segments(self) -> list[tuple[int, str, int, bool, int]]: ...
    # every other file of the folder, by name: indexes, snapshots, .deleted, .cleaned, .swap, checkpoints
    def other_files(self) -> list[tuple[str, int]]: ...
    def lookup(self, offset: int) -> tuple[int, int, int] | None: ...
    def offset_for_timestamp(self, timestamp: int, exact: bool = False) -> tuple[int, int, int | None] | None: ...
    def offset_of_max_timestamp(self) -> tuple[int, int, int | None] | None: ...
    # headers only
    def statistics(self, *, on_corrupt: _OnCorrupt = "raise") -> Sums: ...

# of one question to folders of one log dir: an exception answers for a folder that cannot be read
def list_offsets(
    folders: list[str], log_dir: DirState | None, time: int, is_committed: bool
) -> list[int | BaseException | None]: ...
def describe_all(folders: list[str], log_dir: DirState | None) -> list[Description | BaseException]: ...
def statistics_all(
    folders: list[str], log_dir: DirState | None, on_corrupt: _OnCorrupt, segments: bool
) -> list[Sums | BaseException]: ...

# log start offset, log end offset, number of segments, what they add up to, and, where wanted, the same of each
Sums: TypeAlias = tuple[int, int, int, dict[str, Any], list[dict[str, Any]]]
# topic id, log start offset, log end offset, high watermark; of each segment base offset, file name, size, is_active,
# modified ms, and the last timestamp in its time index
Description: TypeAlias = tuple[str | None, int, int, int | None, list[tuple[int, str, int, bool, int, int | None]]]

@final
class Index:
    """An offset or time index, read or written; an entry is (offset, position) or (timestamp, offset)."""

    def __new__(
        cls, path: str, is_time: bool, base_offset: int | None, max_index_size: int, writable: bool
    ) -> Index: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def max_entries(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def last_entry(self) -> tuple[int, int]: ...
    def entry(self, n: int) -> tuple[int, int]: ...
    def lookup(self, target: int) -> tuple[int, int]: ...
    def lookup_many(self, targets: list[int]) -> Rows: ...
    def to_arrow(self) -> Rows: ...
    def sanity_check(self) -> None: ...
    # what follows is a ValueError on an index that was opened for reading
    def can_append_offset(self, offset: int) -> bool: ...
    def append(self, first: int, second: int, skip_full_check: bool) -> None: ...
    def fetch_upper_bound(self, position: int, fetch_size: int) -> tuple[int, int] | None: ...
    def truncate(self) -> None: ...
    def truncate_to(self, offset: int) -> None: ...
    def resize(self, size: int) -> bool: ...
    def reset(self) -> None: ...
    def trim_to_valid_size(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

# version, producer id, first offset, last offset, last stable offset
_Aborted: TypeAlias = tuple[int, int, int, int, int]

@final
class TransactionIndex:
    """A transaction index, read or written."""

    def __new__(cls, path: str, base_offset: int | None, writable: bool) -> TransactionIndex: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def entries(self) -> int: ...
    def entry(self, n: int) -> _Aborted: ...
    def to_arrow(self) -> Rows: ...
    def sanity_check(self) -> None: ...
    def append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None: ...
    # the transactions, and whether later segments hold none
    def collect_aborted(self, fetch_offset: int, upper_bound: int) -> tuple[list[_Aborted], bool]: ...
    def truncate_to(self, offset: int) -> None: ...
    def reset(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

# kafka-dump-log's text for the files, written to a file descriptor; True when something was wrong
def dump(
    # each with the name to show
    files: Sequence[tuple[str | PathLike[str], str]],
    fd: int,
    error_fd: int,
    *,
    print_data_log: bool = False,
    deep_iteration: bool = False,
    skip_record_metadata: bool = False,
    verify_index_only: bool = False,
    index_sanity_check: bool = False,
    max_bytes: int | None = None,
    max_message_size: int = 5_242_880,
    key_decoder: Literal["string", "integer", "long", "bytes"] = "string",
    value_decoder: Literal["string", "integer", "long", "bytes"] = "string",
    topic_decoder: str | None = None,  # an internal topic
) -> bool: ...

# a topic's settings, by names with underscores; ValueError with Kafka's words
_Settings: TypeAlias = list[tuple[str, str]]
_Progress: TypeAlias = Callable[[str, int, int], object]

def check_config(settings: _Settings) -> None: ...
def check_topic(name: str) -> None: ...
def check_columns(data: object, *, keep_offsets: bool = False, ignore_extra: bool = False) -> None: ...

# the partitions of the keys in the column `key`, as a column `partition` of int32
def partition_for_key(data: object, partitions: int) -> Rows: ...

# the first row that no uncompressed batch of so many bytes takes, and the bytes that it needs
def check_sizes(data: object, most: int) -> tuple[int, int] | None: ...

@final
class HeldLogDirs:
    """Log dirs that this process has locked, whether or not it has partitions in them open."""

    def __new__(cls, log_dirs: list[str]) -> HeldLogDirs: ...
    def close(self) -> None: ...

@final
class LogWriter:
    """One partition of a log dir, open for writing."""

    def __new__(
        cls,
        log_dirs: list[str],
        topic: str,
        partition: int,
        settings: _Settings,
        *,
        topic_id: str | None = None,
        cluster_id: str | None = None,
        node_id: int | None = None,
        directory_id: str | None = None,
        leader_epoch: int | None = None,
        clock: Callable[[], int] | None = None,
        sync: Literal["config", "never", "append"] = "config",
        batch_bytes: int = ...,  # 16384
        job: str | None = None,
    ) -> LogWriter: ...
    @property
    def path(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def topic_id(self) -> str | None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def recovery_point(self) -> int: ...
    @property
    def highest_producer_id(self) -> int | None: ...
    @property
    def latest_leader_epoch(self) -> int | None: ...
    # an Arrow stream or array of structs
    # `first_row`: what rows count from in what errors say
    def append(
        self, data: object, *, keep_offsets: bool = False, ignore_extra: bool = False, first_row: int = 0
    ) -> dict[str, Any]: ...
    def append_batches(self, source: PartitionRange) -> dict[str, Any]: ...
    def roll(self) -> None: ...
    def flush(self) -> None: ...
    def truncate(self, offset: int) -> bool: ...
    def truncate_fully(self, offset: int) -> None: ...
    def delete_records(self, before: int) -> bool: ...
    def close(self) -> None: ...

# Reports, and what an append did, are mappings by the names of fields; paths are bytes.
def recover(
    path: str,
    *,
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    out: str | None = None,
    on_loss: Literal["refuse", "as_kafka", "salvage"] = "refuse",
    dry_run: bool = False,
    settings: _Settings = ...,
    producer_id_expiration_ms: int = ...,
    clock: Callable[[], int] | None = None,
) -> dict[str, Any]: ...
def compact(
    path: str,
    out: str,
    *,
    now_ms: int,
    map_bytes: int,
    dry_run: bool = False,
    on_corrupt: str = "raise",
    roll: bool = False,
    settings: _Settings = ...,
    topics: list[tuple[str, _Settings]] = ...,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def explain(
    path: str, *, now_ms: int, settings: _Settings = ..., topics: list[tuple[str, _Settings]] = ...
) -> tuple[Rows, list[Exception]]: ...
def disk_usage(path: str) -> Rows: ...
def retain(
    path: str,
    out: str,
    *,
    now_ms: int,
    dry_run: bool = False,
    settings: _Settings = ...,
    topics: list[tuple[str, _Settings]] = ...,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def rewrite(
    path: str,
    out: str,
    *,
    now_ms: int,
    drops: list[tuple[str, list[tuple[int, int]]]] = ...,
    left_out: list[tuple[str, str]] = ...,
    rerolls: bool = False,
    raises: bool = False,
    dry_run: bool = False,
    on_loss: Literal["refuse", "salvage"] = "refuse",
    settings: _Settings = ...,
    topics: list[tuple[str, _Settings]] = ...,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def check_free(source: str, out: str) -> None: ...
def rebuild_indexes(
    path: str,
    *,
    level: str = "4.3",
    out: str | None = None,
    dry_run: bool = False,
    settings: _Settings = ...,
    clock: Callable[[], int] | None = None,
) -> dict[str, Any]: ...

@final
class RecordText:
    def __new__(
        cls, template: str | None = None, *, null: str = "", is_json_text: bool = False, errors_of: str = ""
    ) -> RecordText: ...
    @property
    def columns(self) -> list[str]: ...
    def of(self, batch: object, rows: list[int] | None = None) -> bytes: ...

@final
class PrintedSearch:
    """A search in records as they are printed; frozen."""

    def __new__(
        cls,
        *,
        containing: bytes | None = None,
        matching: str | None = None,
        search_in: Sequence[str],
        is_inverted: bool = False,
        is_json_text: bool = False,
    ) -> PrintedSearch: ...
    def rows(self, batch: object) -> list[int]: ...

@final
class RowText:
    def __new__(
        cls, form: Literal["jsonl", "csv", "tsv"], *, text: bool = False, json: Sequence[str] = ...
    ) -> RowText: ...
    def of(self, batch: object) -> bytes: ...

@final
class Rows:
    """A small table: entries of an index, partitions, findings."""

    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class VerifyProgress:
    def __new__(cls) -> VerifyProgress: ...
    @property
    def partitions(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...

def verify(
    paths: list[str],
    *,
    level: str | None = None,
    headers_only: bool = False,
    threads: int = 0,
    progress: VerifyProgress | None = None,
) -> Rows: ...
def verify_codes() -> list[tuple[str, str, str]]: ...
