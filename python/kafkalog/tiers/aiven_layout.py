"""The layout of Aiven's plugin, ``tiered-storage-for-apache-kafka``: chunks, perhaps compressed, perhaps encrypted.

A segment is three objects: ``.log``, the chunks of its log; ``.indexes``, all its indexes; and, written last,
``.rsm-manifest``, which says where each chunk and index is. So a manifest proves a whole copy.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.errors import CorruptRecordError, KafkaLogError, UnsupportedFormatError
from kafkalog.tiers.layout import (
    DamagedError,
    ObjectName,
    RemoteFile,
    RemoteLayout,
    SegmentFacts,
    WrongSizeError,
    read_range,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog.tiers.layout import StoredSegment
    from kafkalog.tiers.objects import ObjectInfo, ObjectStore
    from kafkalog.typing import StrPath

_KEY = re.compile(
    r"(?:.*/)?(?P<topic>[^/]+)-(?P<topic_id>[\w-]{22})/(?P<partition>\d+)"
    r"/(?P<start>\d{20})-(?P<segment_id>[\w-]{22})\.(?P<kind>log|indexes|rsm-manifest)"
)
_INDEXES = {
    "index": "offset",
    "timeindex": "timestamp",
    "snapshot": "producerSnapshot",
    "leader_epochs": "leaderEpoch",
    "txnindex": "transaction",
}
# Nonce and tag around an encrypted index.
_SEAL = 12 + 16
# A manifest is a few kilobytes; one of a segment of 1 GiB in the smallest chunks that are of use has a megabyte.
_MAX_MANIFEST = 64 << 20
_MAX_SEGMENT = 2**31 - 1
_MAX_CHUNKS = 1 << 24
# Chunks that one read asks for at once.
_READ_AT_ONCE = 8 << 20


@dataclass
class _Chunks:
    """Places of the chunks of a log."""

    # bytes of the file that each but the last holds
    original: int
    total: int
    # stored size of each, and where each begins; one more for the end
    sizes: list[int]
    starts: list[int]


class AivenLayout(RemoteLayout):
    """The layout of Aiven's plugin.

    Parameters
    ----------
    keyring : dict of str to path, optional
        For each id of a key pair (``storage.encryption.key.pairs``) the file of its private key, in PEM.
    """

    source = "manifest"
    required = ("log", "indexes", "manifest")

    def __init__(self, keyring: Mapping[str, StrPath] | None = None) -> None:
        self._keyring = {name: str(path) for name, path in (keyring or {}).items()}
        self._manifests: dict[str, _Manifest] = {}

    def parse(self, key: str) -> ObjectName | None:
        """Return what a key says; None for an object that is of no segment."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        kind = found["kind"]
        return ObjectName.of(found.groupdict(), "manifest" if kind == "rsm-manifest" else kind)

    def describe(self, store: ObjectStore, stored: StoredSegment) -> SegmentFacts | None:
        """Return what the manifest says; None without one."""
        if "manifest" not in stored.objects:
            return None
        manifest = self._manifest(store, stored)
        log = stored.objects.get("log")
        if log is not None and log.size != manifest.chunks.starts[-1]:
            raise WrongSizeError(
                f"{log.key}: expected {manifest.chunks.starts[-1]} bytes, as its manifest says, found {log.size}",
                log.key,
            )
        return manifest.facts

    def open(self, store: ObjectStore, stored: StoredSegment, kind: str) -> RemoteFile | None:
        """Open a file of a segment; None if there is none."""
        if "manifest" not in stored.objects:
            return None
        manifest = self._manifest(store, stored)
        if kind == "log":
            log = stored.objects.get("log")
            return None if log is None else _ChunkedLog(store, log, manifest, self)
        place = manifest.indexes.get(_INDEXES[kind])
        indexes = stored.objects.get("indexes")
        if place is None or indexes is None:
            return None
        return _SealedIndex(store, indexes, manifest, self, place)

    def _manifest(self, store: ObjectStore, stored: StoredSegment) -> _Manifest:
        found = stored.objects["manifest"]
        known = self._manifests.get(found.key)
        if known is None:
            known = self._manifests[found.key] = _Manifest(store, found, stored)
        return known

    def opener(self, manifest: _Manifest) -> _core.ChunkReader:
        """Return what decodes the chunks of a segment."""
        if manifest.opener is None:
            manifest.opener = self._opened(manifest)
        return manifest.opener

    def _opened(self, manifest: _Manifest) -> _core.ChunkReader:
        if manifest.sealed is None:
            return _core.ChunkReader(compressed=manifest.compressed)
        name, wrapped, aad = manifest.sealed
        path = self._keyring.get(name)
        if path is None:
            known = ", ".join(sorted(self._keyring)) or "none"
            raise ValueError(
                f"{manifest.key}: encrypted with the key pair {name!r}, and keyring has {known}; give the file of its "
                f'private key: keyring={{"{name}": "/path"}}, or --remote-key {name}=FILE'
            )
        pem = Path(path).read_text(encoding="ascii")
        try:
            return _core.ChunkReader(compressed=manifest.compressed, private_key=pem, wrapped=wrapped, aad=aad)
        except ValueError as error:
            raise ValueError(f"{manifest.key}: key pair {name!r}, {path}: {error}") from None


class _Manifest:
    """A manifest, read and checked."""

    def __init__(self, store: ObjectStore, at: ObjectInfo, stored: StoredSegment) -> None:
        self.key = at.key
        self.opener: _core.ChunkReader | None = None
        if at.size > _MAX_MANIFEST:
            raise CorruptRecordError(
                f"{at.key}: a manifest of {at.size} bytes, expected at most {_MAX_MANIFEST}", at.key
            )
        raw = read_range(store, at, 0, at.size)
        try:
            self._take(json.loads(raw), stored)
        except KafkaLogError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
            raise CorruptRecordError(f"{at.key}: no manifest of a segment: {error!r}", at.key) from None

    def _take(self, given: dict[str, Any], stored: StoredSegment) -> None:
        version = given["version"]
        if version != "1":
            raise UnsupportedFormatError(f"{self.key}: manifest version: expected '1', found {version!r}", self.key)
        about = given["remoteLogSegmentMetadata"]
        self._check_ids(about["remoteLogSegmentId"], stored)
        self.compressed = given["compression"]
        if not isinstance(self.compressed, bool):
            self._refuse(f"compression: expected true or false, found {self.compressed!r}")
        self.chunks = self._chunks(given["chunkIndex"])
        self.indexes = {
            name: (_natural(place["position"]), _natural(place["size"]))
            for name, place in given["segmentIndexes"].items()
            if place is not None and name in _INDEXES.values()
        }
        self.sealed = self._sealed(given.get("encryption"))
        epochs = {int(epoch): _natural(offset) for epoch, offset in about["segmentLeaderEpochs"].items()}
        start, end = _natural(about["startOffset"]), _natural(about["endOffset"])
        if end < start:
            self._refuse(f"offsets {start} to {end}")
        copied_at = _natural(about["eventTimestampMs"])
        newest = about.get("maxTimestampMs")
        if newest is not None and (not isinstance(newest, int) or isinstance(newest, bool)):
            self._refuse(f"maxTimestampMs: expected a number, found {newest!r}")
        self.facts = SegmentFacts(start, end, epochs, self.chunks.total, copied_at, self.topic, newest)

    def _check_ids(self, given: dict[str, Any], stored: StoredSegment) -> None:
        partition = given["topicIdPartition"]
        self.topic = str(partition["topicPartition"]["topic"])
        found = (given["id"], partition["topicId"], partition["topicPartition"]["partition"])
        expected = (stored.segment_id, stored.topic_id, stored.partition)
        # A prefix of all keys need not end with a slash: what the key has before the id is not only the topic's name.
        if found != expected or not stored.topic.endswith(self.topic):
            self._refuse(
                f"expected the manifest of segment {stored.segment_id}, found that of {found[0]} of {self.topic}"
            )

    def _sealed(self, given: dict[str, str] | None) -> tuple[str, bytes, bytes] | None:
        if given is None:
            return None
        name, separator, wrapped = given["dataKey"].partition(":")
        if not separator:
            self._refuse("dataKey: expected an id, a colon and the key")
        return name, base64.b64decode(wrapped, validate=True), base64.b64decode(given["aad"], validate=True)

    def _chunks(self, given: dict[str, Any]) -> _Chunks:
        original, total = _natural(given["originalChunkSize"]), _natural(given["originalFileSize"])
        if original < 1 or total > _MAX_SEGMENT:
            self._refuse(f"chunks of {original} bytes, a log of {total}")
        count = max(1, -(-total // original))
        if count > _MAX_CHUNKS:
            self._refuse(f"{count} chunks")
        kind = given["type"]
        if kind == "fixed":
            last = _natural(given["finalTransformedChunkSize"])
            sizes = [_natural(given["transformedChunkSize"])] * (count - 1) + [last]
        elif kind == "variable":
            sizes = _unpacked(given["transformedChunks"], count)
        else:
            raise UnsupportedFormatError(
                f"{self.key}: chunk index: expected 'fixed' or 'variable', found {kind!r}", self.key
            )
        if len(sizes) != count:
            self._refuse(f"expected {count} chunks, found the sizes of {len(sizes)}")
        return _Chunks(original, total, sizes, [0, *accumulate(sizes)])

    def _refuse(self, text: str) -> None:
        raise CorruptRecordError(f"{self.key}: {text}", self.key)


def _natural(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value >= 1 << 63:
        raise ValueError(f"expected a number, found {value!r}")
    return value


def _unpacked(text: str, count: int) -> list[int]:
    """Return the sizes of chunks: a base, what each has beyond it, the last one (``ChunkSizesBinaryCodec``)."""
    try:
        packed = _core.decompress_sizes(base64.b64decode(text, validate=True), 4 * _MAX_CHUNKS)
    except CorruptRecordError:
        raise ValueError("transformedChunks: expected one whole zstd frame") from None
    (found,) = struct.unpack_from(">I", packed)
    if found != count:
        raise ValueError(f"expected {count} chunks, found the sizes of {found}")
    if count == 1:
        return list(struct.unpack_from(">I", packed, 4))
    base, width = struct.unpack_from(">IB", packed, 4)
    end = 9 + (count - 1) * width
    sizes = [base + int.from_bytes(packed[at : at + width], "big") for at in range(9, end, width)] if width else []
    if not width:
        sizes = [base] * (count - 1)
    return [*sizes, *struct.unpack_from(">I", packed, end)]


class _ChunkedLog:
    """The log of a segment, from its chunks."""

    def __init__(self, store: ObjectStore, at: ObjectInfo, manifest: _Manifest, layout: AivenLayout) -> None:
        self._store, self._at, self._manifest, self._layout = store, at, manifest, layout
        self.size = manifest.chunks.total

    def read(self, start: int, length: int) -> bytes:
        """Return a range of it; chunks are read whole, several with one request."""
        chunks = self._manifest.chunks
        end = min(start + length, self.size)
        if start >= end:
            return b""
        first, last = start // chunks.original, (end - 1) // chunks.original
        parts = []
        while first <= last:
            # The most that one request may ask for, one chunk at least.
            until = bisect_right(chunks.starts, chunks.starts[first] + _READ_AT_ONCE) - 1
            until = min(max(until, first + 1), last + 1)
            parts.append(self._decoded(first, until))
            first = until
        begin = start - start // chunks.original * chunks.original
        return b"".join(parts)[begin : begin + end - start]

    def _decoded(self, first: int, until: int) -> bytes:
        chunks = self._manifest.chunks
        begin, end = chunks.starts[first], chunks.starts[until]
        # An object that was cut has some of them.
        stored = read_range(self._store, self._at, begin, max(0, min(end, self._at.size) - begin))
        return self._opened(stored, first, until)

    def _opened(self, stored: bytes, first: int, until: int) -> bytes:
        chunks = self._manifest.chunks
        begin, start = chunks.starts[first], first * chunks.original
        sizes = [
            (chunks.sizes[n], min(chunks.original, chunks.total - n * chunks.original)) for n in range(first, until)
        ]
        try:
            return self._layout.opener(self._manifest).decode(stored, begin, sizes, self._at.key)
        except (CorruptRecordError, UnsupportedFormatError) as error:
            if len(sizes) == 1:
                raise DamagedError(error, start, start + sizes[0][1]) from None
        # One of them, which shows when each is opened by itself.
        places = [(n, chunks.starts[n] - begin, chunks.starts[n + 1] - begin) for n in range(first, until)]
        return b"".join(self._opened(stored[at:end], n, n + 1) for n, at, end in places)


class _SealedIndex:
    """An index of a segment: a slice of the one object that holds them."""

    def __init__(
        self,
        store: ObjectStore,
        at: ObjectInfo,
        manifest: _Manifest,
        layout: AivenLayout,
        place: tuple[int, int],
    ) -> None:
        self._store, self._at, self._manifest, self._layout = store, at, manifest, layout
        self._position, stored_size = place
        self._stored_size = stored_size
        is_sealed = manifest.sealed is not None and stored_size > 0
        self.size = max(0, stored_size - _SEAL) if is_sealed else stored_size

    def read(self, start: int, length: int) -> bytes:
        """Return a range of it."""
        stored = read_range(self._store, self._at, self._position, self._stored_size)
        if not stored or self._manifest.sealed is None:
            return stored[start : start + length]
        opened = self._layout.opener(self._manifest).open(stored, self._position, self._at.key)
        return opened[start : start + length]
