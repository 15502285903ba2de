"""Exceptions: their family, what they carry, and that they survive the way back from a Spark worker."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import corpus
import kafkalog
from kafkalog import errors
from kafkalog.cli.main import main

CORRUPT = corpus.GOLDEN / "corrupt"
CLASSES = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_pickles_with_message_and_place(kind: type[kafkalog.KafkaLogError]) -> None:
    error = kind("what: expected 1, found 2", "/d/t-0/0.log", 17, 42)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is kind
    assert str(again) == "what: expected 1, found 2"
    assert (again.path, again.position, again.offset) == ("/d/t-0/0.log", 17, 42)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_family(kind: type[kafkalog.KafkaLogError]) -> None:
    assert issubclass(kind, kafkalog.KafkaLogError)
    assert issubclass(kind, LookupError) == (kind is kafkalog.OffsetOutOfRangeError)
    assert issubclass(kind, RuntimeError) == (kind is kafkalog.InternalError)
    assert issubclass(kind, ValueError) == (kind is kafkalog.UnknownTopicOrPartitionError)
    assert not issubclass(kind, OSError)
    assert getattr(kafkalog, kind.__name__) is kind
    error = kind("text")
    assert (error.path, error.position, error.offset) == (None, None, None)


def test_flipped_bit_says_file_byte_and_offset() -> None:
    folder = CORRUPT / "flipped-bit" / "t-0"
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.read_table(folder)
    error = caught.value
    assert error.path is not None
    assert Path(error.path) == folder / "00000000000000000000.log"
    assert error.position is not None
    assert 93 <= error.position < 186, "within the damaged batch"
    assert error.offset == 2
    assert "expected" in str(error)
    assert "found" in str(error)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_error_of_an_iteration_is_the_same_as_of_a_table() -> None:
    reader = kafkalog.scan(CORRUPT / "flipped-bit" / "t-0", batch_rows=1)
    with pytest.raises(kafkalog.CorruptRecordError):
        list(reader)


def test_unknown_magic_is_unsupported() -> None:
    with pytest.raises(kafkalog.UnsupportedFormatError):
        kafkalog.read_table(CORRUPT / "unknown-magic" / "t-0")


def test_offset_out_of_range() -> None:
    log = kafkalog.PartitionLog(corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0")
    with pytest.raises(kafkalog.OffsetOutOfRangeError) as caught:
        log.lookup(881)
    assert caught.value.offset == 881
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("function", [kafkalog.scan, kafkalog.scan_batches, kafkalog.LogDir, kafkalog.PartitionLog])
def test_wrong_path_is_file_not_found(function: type, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        function(tmp_path / "nothing-0")
    assert caught.value.filename is not None
    assert Path(caught.value.filename) == tmp_path / "nothing-0"


@pytest.mark.parametrize("kind", [kafkalog.OffsetIndex, kafkalog.TimeIndex])
def test_wrong_index_path_is_file_not_found(kind: type, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kind(tmp_path / "00000000000000000000.index")


def test_unsound_index_asked_for_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000100.index"
    file.write_bytes(b"\x00\x00\x00\x05\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x00\x00\x00\x09")
    with kafkalog.OffsetIndex(file) as index, pytest.raises(kafkalog.CorruptIndexError) as caught:
        index.sanity_check()
    assert caught.value.path == str(file)


def test_an_internal_error_ends_a_command_with_exit_code_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kafkalog.InternalError("internal error: for the test")

    monkeypatch.setattr("kafkalog._core.scan_ranges", fail)
    folder = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    assert main(["cat", str(folder)]) == 3
    assert capsys.readouterr().err == "kafkalog: internal error: for the test\n"
