"""Damage to the objects of a tier: an error that names the object, and what reads past it still get."""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
import shutil
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiered_cases
from kafkalog.cli.main import main
from kafkalog.errors import CorruptRecordError, UnsupportedFormatError
from kafkalog.tiers.layout import DamagedError
from s3_server import S3Server
from tiered_cases import COLUMNS, expected_rows, rows_of
from tiers import SEED, pick

if TYPE_CHECKING:
    from pathlib import Path

    from tiered_cases import TieredCase

MORE = [each for each in tiered_cases.more_cases() if each.name.startswith("aiven/damaged")]
HEADER = 61
READS: tuple[dict[str, Any], ...] = (
    {},
    {"layout": "view"},
    {"threads": 2},
    {"check_crcs": False},
    {"batch_rows": 7},
    {"isolation_level": "read_committed"},
)


@dataclass
class Batch:
    """One batch, as an undamaged tier has it."""

    position: int
    end: int
    first: int
    last: int


@dataclass
class Chunked:
    """A segment in chunks, and what is in it."""

    case: TieredCase
    topic: str
    log: Path
    manifest: dict[str, Any]
    batches: list[Batch]

    @property
    def bounds(self) -> dict[str, Any]:
        first, last = self.batches[0].first, self.batches[-1].last
        return {"starting_offsets": first, "ending_offsets": last + 1, "columns": COLUMNS}

    def starts(self) -> list[int]:
        """Return where chunks begin in the object, and its end: read without the code that is tested."""
        index = self.manifest["chunkIndex"]
        count = -(-index["originalFileSize"] // index["originalChunkSize"])
        if index["type"] == "fixed":
            sizes = [index["transformedChunkSize"]] * (count - 1) + [index["finalTransformedChunkSize"]]
        else:
            packed = pa.BufferReader(base64.b64decode(index["transformedChunks"]))
            told = pa.CompressedInputStream(packed, "zstd").read()
            base, width = struct.unpack_from(">IB", told, 4)
            more = [told[9 + n * width : 9 + (n + 1) * width] for n in range(count - 1)]
            sizes = [base + int.from_bytes(each, "big") for each in more] + [struct.unpack(">I", told[-4:])[0]]
        return [sum(sizes[:n]) for n in range(count + 1)]

    def original(self, chunk: int) -> tuple[int, int]:
        """Return the bytes of the log that a chunk holds."""
        index = self.manifest["chunkIndex"]
        start = chunk * index["originalChunkSize"]
        return start, min(start + index["originalChunkSize"], index["originalFileSize"])


def chunked(name: str, topic: str, tmp_path: Path) -> Chunked:
    """Unpack a case, and choose a segment of a topic that has several chunks and is only in the tier."""
    case = tiered_cases.unpack(name, tmp_path / name)
    rows = kafkalog.tables.remote_segments(case.data, topics=topic, **case.remote).to_pylist()
    local = min(int(path.stem) for path in case.data.glob(f"{topic}-0/*.log"))
    for row in rows:
        if not row["isChosen"] or row["endOffset"] >= local or row["partition"] != 0:
            continue
        log = next(case.tier.rglob(f"*-{row['segmentId']}.log"))
        manifest = json.loads(log.with_suffix(".rsm-manifest").read_bytes())
        given = {"starting_offsets": row["startOffset"], "ending_offsets": row["endOffset"] + 1}
        table = kafkalog.scan_batches(case.data, topic, **given, **case.remote).read_all()
        batches = [
            Batch(each["position"], each["position"] + each["size"], each["baseOffset"], each["lastOffset"])
            for each in table.to_pylist()
        ]
        made = Chunked(case, topic, log, manifest, batches)
        if len(made.starts()) > 2 and len(batches) > 3:
            return made
    raise AssertionError(f"{name} has no segment of {topic} in chunks")


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def check_reads(made: Chunked, damaged: tuple[int, int], path: str, position: int) -> None:
    """Damaged are these bytes of the log: strict reads of the segment fail, and reads past damage have the rest."""
    whole = {row["offset"]: row for row in expected_rows(made.case.rows(made.topic, 0, "uncommitted") or [])}
    hit = [each for each in made.batches if each.position < damaged[1] and each.end > damaged[0]]
    assert hit
    place = {**made.case.remote, "path": made.case.data, "topics": made.topic}
    with pytest.raises(CorruptRecordError, match=r"expected .*, found .*; on_corrupt=\"skip\"") as raised:
        kafkalog.read_table(**place, **made.bounds)
    assert (raised.value.path, raised.value.position) == (path, position)
    assert str(raised.value).startswith(f"{path}: byte {position}: ")
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert (str(again), again.path, again.position) == (str(raised.value), path, position)
    # A strict read does not meet damage after its end or before its begin. The next batch's header shows it the end.
    before = [each for each in made.batches if each.end + HEADER <= damaged[0]]
    for some in (before, made.batches[made.batches.index(hit[-1]) + 1 :]):
        if some:
            given: dict[str, Any] = {
                "starting_offsets": some[0].first,
                "ending_offsets": some[-1].last + 1,
                "columns": COLUMNS,
            }
            right = [row for offset, row in whole.items() if some[0].first <= offset <= some[-1].last]
            for more in READS[:-1]:
                assert rows_of(kafkalog.read_table(**place, **given, **more)) == right, more
    lost = {offset for each in hit for offset in range(each.first, each.last + 1)}
    for more in READS:
        reader = kafkalog.scan(**place, **made.bounds, on_corrupt="skip", **more)
        found = rows_of(reader.read_all())
        first, last = made.batches[0].first, made.batches[-1].last
        right = [row for offset, row in whole.items() if first <= offset <= last and offset not in lost]
        if "isolation_level" in more:
            assert all(row in right for row in found)
        else:
            assert found == right, more
        (said,) = reader.lost.to_pylist()
        assert (said["position"], said["endPosition"]) == (hit[0].position, hit[-1].end)
        assert (said["firstOffset"], said["lastOffset"]) == (hit[0].first, hit[-1].last)
        assert said["reason"] in ("crc", "foreign")


@pytest.mark.parametrize("chunk", [0, -1])
@pytest.mark.parametrize("name", ["aiven-lineage-zstd-aes", "aiven-txn-fixed"])
def test_a_damaged_chunk_is_damage_of_its_bytes(name: str, chunk: int, tmp_path: Path) -> None:
    made = chunked(name, "diverged" if "lineage" in name else "txn-mixed", tmp_path)
    starts = made.starts()
    chunk %= len(starts) - 1
    if "aes" in name:
        flip(made.log, starts[chunk] + 20)
        damaged = made.original(chunk)
    else:
        # Chunks as they are: one that is cut.
        made.log.write_bytes(made.log.read_bytes()[: starts[chunk] + 5])
        damaged = made.original(chunk)[0], made.batches[-1].end
    check_reads(made, damaged, str(made.log), starts[chunk])


def test_a_broken_frame_is_damage_of_its_bytes(tmp_path: Path) -> None:
    made = chunked("aiven-codecs-heuristic", "codec-mixed", tmp_path)
    start = made.starts()[1]
    # Its magic number.
    flip(made.log, start)
    check_reads(made, made.original(1), str(made.log), start)


def test_damage_in_a_bucket(tmp_path: Path) -> None:
    made = chunked("aiven-lineage-zstd-aes", "diverged", tmp_path)
    start = made.starts()[1]
    flip(made.log, start + 20)
    server = S3Server()
    server.put_folder(made.case.tier, "T/")
    try:
        given: Any = {"remote": f"s3://{server.bucket}/T", "storage_options": server.storage_options}
        key = f"s3://{server.bucket}/T/{made.log.relative_to(made.case.tier)}"
        with pytest.raises(CorruptRecordError) as raised:
            kafkalog.read_table(made.case.data, made.topic, **made.bounds, keyring=made.case.keyring, **given)
        # The number of the mount depends on the tests before.
        path = re.sub(r"#\d+/", "/", str(raised.value.path))
        assert (path, raised.value.position) == (key, start)
        # Damage does not pass: it is not asked for again and again.
        assert server.counts["GET"] < 60
    finally:
        server.close()


def test_commands_pass_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = chunked("aiven-lineage-zstd-aes", "diverged", tmp_path)
    flip(made.log, made.starts()[1] + 20)
    keys = [f"--remote-key={name}={path}" for name, path in made.case.keyring.items()]
    given = [str(made.case.data), "-t", made.topic, "--remote", str(made.case.tier), *keys]
    assert main(["cat", *given, "-f", "%o\n"]) == 1
    assert f"{made.log}: byte {made.starts()[1]}: encrypted chunk: expected" in capsys.readouterr().err
    main(["cat", *given, "-f", "%o\n", "--on-corrupt", "skip"])
    offsets = [int(each) for each in capsys.readouterr().out.split()]
    start, end = made.original(1)
    lost = [each for each in made.batches if each.position < end and each.end > start]
    assert lost[0].first - 1 in offsets
    assert lost[0].first not in offsets
    assert lost[-1].last + 1 in offsets
    assert main(["verify", *given]) == 1
    said = capsys.readouterr().out
    assert "[remote-unreadable]" in said
    assert f"{made.log}: byte {made.starts()[1]}: encrypted chunk" in said


def test_a_missing_key_is_no_damage(tmp_path: Path) -> None:
    made = chunked("aiven-lineage-zstd-aes", "diverged", tmp_path)
    for policy in ("raise", "skip"):
        with pytest.raises(OSError, match="keyring has none"):
            kafkalog.read_table(made.case.data, made.topic, **made.bounds, remote=made.case.tier, on_corrupt=policy)


def segments_of(case: TieredCase) -> list[dict[str, Any]]:
    """Return the segments that serve reads and are damaged."""
    damaged = {each["key"][-22:]: each["damage"] for each in case.about["damage"]}
    rows = kafkalog.tables.remote_segments(case.data, **case.remote).to_pylist()
    return [{**row, "damage": damaged[row["segmentId"]]} for row in rows if row["segmentId"] in damaged]


def check_damaged(case: TieredCase) -> set[str]:
    """Each damaged segment gives right rows or an error about it; past damage no wrong row, and `lost` has the rest."""
    failed = set()
    for row in segments_of(case):
        wanted = case.rows(row["topic"], row["partition"], "uncommitted")
        if wanted is None or not row["isChosen"] or "key" in row["damage"]:
            continue
        first, last = row["startOffset"], row["endOffset"]
        right = {each["offset"]: each for each in expected_rows(wanted) if first <= each["offset"] <= last}
        at = {row["topic"]: {row["partition"]: first}}, {row["topic"]: {row["partition"]: last + 1}}
        given: dict[str, Any] = {"starting_offsets": at[0], "ending_offsets": at[1], "columns": COLUMNS}
        given |= {"partitions": row["partition"], **case.remote}
        try:
            strict = rows_of(kafkalog.read_table(case.data, row["topic"], **given))
        except (CorruptRecordError, UnsupportedFormatError) as error:
            said = f"{error} {error.path}"
            failed.add(row["damage"])
        else:
            said = row["segmentId"] if strict == list(right.values()) else "other rows"
        # Bytes that nothing protects but the checksums of batches are damage of the log, not of an object.
        assert row["segmentId"] in said or f"/{first:020}.log" in said, row["damage"]
        reader = kafkalog.scan(case.data, row["topic"], on_corrupt="skip", **given)
        found = rows_of(reader.read_all())
        assert all(right[each["offset"]] == each for each in found), row["damage"]
        lost = [each for each in reader.lost.to_pylist() if each["firstOffset"] is not None]
        gone = right.keys() - {each["offset"] for each in found}
        told = {offset for each in lost for offset in range(each["firstOffset"], each["lastOffset"] + 1)}
        assert gone <= told, row["damage"]
    return failed


def test_damage_of_the_plugins_own_objects(tmp_path: Path) -> None:
    case = tiered_cases.unpack("aiven-damaged-zstd-aes", tmp_path)
    assert check_damaged(case) >= {
        "log cut in the middle",
        "only the log left",
        "manifest version 2",
        "manifest aad wrong",
    }


@pytest.mark.full
@pytest.mark.parametrize("case", MORE, ids=lambda each: each.name)
def test_every_damage(case: TieredCase) -> None:
    assert len(check_damaged(case)) > 5


class Holed(kafkalog.tiers.LocalLayout):
    """A layout of somebody else's, which finds bytes of logs damaged, and may know that the others are not."""

    def __init__(self, holes: list[range], *, is_exact: bool = True, start_offset: int = 0) -> None:
        self.holes, self.is_exact, self.start_offset = holes, is_exact, start_offset

    def open(self, store: Any, stored: Any, kind: str) -> Any:
        found = super().open(store, stored, kind)
        is_meant = kind == "log" and stored.start_offset == self.start_offset
        return HoledFile(found, self, stored.objects["log"].key) if is_meant and found is not None else found


@dataclass
class HoledFile:
    """A log with damage."""

    file: Any
    layout: Holed
    key: str

    @property
    def size(self) -> int:
        return int(self.file.size)

    def read(self, start: int, length: int) -> bytes:
        for hole in self.layout.holes:
            if start < hole.stop and start + length > hole.start:
                error = CorruptRecordError("mended badly", self.key, start)
                raise DamagedError(error, hole.start, hole.stop) if self.layout.is_exact else error
        return bytes(self.file.read(start, length))


@pytest.mark.parametrize("is_exact", [True, False])
def test_damage_of_a_copy_that_is_cut(tmp_path: Path, is_exact: bool) -> None:  # noqa: FBT001
    """A copy from 884 on serves 900 to 973: positions of its damage are those of the part."""
    case = tiered_cases.unpack("killed-later", tmp_path)
    (case.data / "log-start-offset-checkpoint").unlink()
    given: dict[str, Any] = {"partitions": 0, "starting_offsets": 900, "ending_offsets": 974, "remote": case.tier}
    whole = kafkalog.read_table(case.data, "cut-off-b", **given)["offset"].to_pylist()
    batches = kafkalog.scan_batches(case.data, "cut-off-b", **given).read_all().to_pylist()
    hit = batches[1]
    # The part is the end of the file.
    begin = 13897 - batches[-1]["position"] - batches[-1]["size"] + hit["position"]
    layout = Holed([range(begin + 70, begin + 80)], is_exact=is_exact, start_offset=884)
    with pytest.raises(CorruptRecordError, match="mended badly"):
        kafkalog.read_table(case.data, "cut-off-b", **given, remote_layout=layout)
    reader = kafkalog.scan(case.data, "cut-off-b", **given, remote_layout=layout, on_corrupt="skip")
    found = reader.read_all()["offset"].to_pylist()
    (lost,) = reader.lost.to_pylist()
    assert found == [each for each in whole if not lost["firstOffset"] <= each <= lost["lastOffset"]]
    if is_exact:
        assert (lost["firstOffset"], lost["lastOffset"]) == (hit["baseOffset"], hit["lastOffset"])
        assert (lost["position"], lost["endPosition"]) == (hit["position"], hit["position"] + hit["size"])


@pytest.mark.full
def test_damage_is_that_of_the_same_bytes_on_a_disk(tmp_path: Path) -> None:
    """Some holes in a log of many windows: rows and losses are those of a disk that has other bytes there."""
    chance = random.Random(SEED)  # noqa: S311 - of a test
    with kafkalog.LogWriter(tmp_path / "L", "t", 0) as log:
        for _ in range(200):
            values = [chance.randbytes(chance.choice([10, 100, 1000, 5000])) for _ in range(60)]
            log.append(pa.table({"value": pa.array(values, pa.binary())}))
    name = f"{0:020}"
    data = (tmp_path / "L" / "t-0" / f"{name}.log").read_bytes()
    assert len(data) > 16 << 20
    folder = tmp_path / "T" / f"t-0-{'A' * 22}"
    folder.mkdir(parents=True)
    for kind in ("log", "index", "timeindex"):
        shutil.copy(tmp_path / "L" / "t-0" / f"{name}.{kind}", folder / f"{name}-{'B' * 22}.{kind}")
    for _ in range(pick(1, 4, 40)):
        # The last batches tell where the log ends, which nothing else does here.
        starts = [chance.randrange(len(data) - (6 << 20)) for _ in range(chance.choice([1, 3, 10]))]
        holes = [range(start, start + chance.choice([1, 100, 5000, 300_000, 4 << 20])) for start in starts]
        other = bytearray(data)
        for hole in holes:
            other[hole.start : hole.stop] = b"\xff" * len(hole)
        (tmp_path / "L" / "t-0" / f"{name}.log").write_bytes(other)
        bounds = {"starting_offsets": chance.randrange(6000), "ending_offsets": 9000}
        for more in ({}, {"threads": 3}, {"layout": "view"}, {"check_crcs": False}, bounds):
            given: dict[str, Any] = {"columns": ["offset", "value"], "on_corrupt": "skip", **more}
            local = kafkalog.scan(tmp_path / "L", "t", **given | {"check_crcs": True})
            tier = kafkalog.scan(None, "t", remote=tmp_path / "T", remote_layout=Holed(holes), **given)
            assert tier.read_all().equals(local.read_all()), (holes, more)
            assert tier.lost.equals(local.lost), (holes, more)


def test_a_log_of_another_length_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    """Kafka's own layout: objects are files, and only metadata tells their length."""
    case = tiered_cases.unpack("lineage", tmp_path)
    log = next(case.tier.glob("kafka-tiered-storage/moved-0-*/00000000000000000094-*.log"))
    data = log.read_bytes()
    whole = kafkalog.read_table(case.data, "moved", starting_offsets=94, ending_offsets=400, **case.remote)
    for changed in (data[:-100], data + b"more"):
        log.write_bytes(changed)
        with pytest.raises(CorruptRecordError, match=f"{log}: object: expected a log of {len(data)} bytes, found"):
            kafkalog.read_table(case.data, "moved", starting_offsets=94, ending_offsets=400, **case.remote)
        reader = kafkalog.scan(
            case.data, "moved", starting_offsets=94, ending_offsets=400, on_corrupt="skip", **case.remote
        )
        offsets = reader.read_all()["offset"].to_pylist()
        gone = set(whole["offset"].to_pylist()) - set(offsets)
        said = [each for each in reader.lost.to_pylist() if each["firstOffset"] is not None]
        assert gone == {offset for each in said for offset in range(each["firstOffset"], each["lastOffset"] + 1)}
        assert bool(gone) == (len(changed) < len(data))
