"""One parser of times for the command line, ``scan`` and Spark: what it takes, how it rounds, what it refuses."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
import kafkalog
from kafkalog._times import format_time, parse_time, since_1970, to_micros, to_millis
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MOMENT = 1_700_030_390_000


@given(st.datetimes(timezones=st.sampled_from([timezone.utc, timezone(timedelta(hours=-5, minutes=-30))])))
def test_datetimes_round_to_the_nearest_milliseconds_around_them(when: datetime) -> None:
    micros = to_micros(when, "t")
    assert EPOCH + timedelta(microseconds=micros) == when
    low, high = to_millis(when, "t", up=False), to_millis(when, "t")
    assert low * 1000 <= micros <= high * 1000
    assert high - low == (micros % 1000 != 0)
    text = when.isoformat()
    assert (parse_time(text, "t", up=False), parse_time(text, "t")) == (low, high)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999).filter(lambda millis: millis != -1))
def test_what_is_written_is_read_back(millis: int) -> None:
    text = format_time(millis)
    assert text is not None
    assert parse_time(text, "t") == millis


def test_texts() -> None:
    for text in ("1700030390000", " 1700030390000 ", "+1700030390000", "2023-11-15T06:39:50Z", "2023-11-15t06:39:50z"):
        assert parse_time(text, "t") == MOMENT, text
    assert parse_time("2023-11-15T07:39:50+01:00", "t") == MOMENT
    assert parse_time("2023-11-15T06:39:49.999001Z", "t") == MOMENT
    assert parse_time("2023-11-15T06:39:50.000999Z", "t", up=False) == MOMENT
    # A date with a zone is its midnight.
    for text in ("2023-11-15Z", "2023-11-15z", "2023-11-15+00:00", " 2023-11-15Z "):
        assert parse_time(text, "t") == 1_700_006_400_000, text
    assert parse_time("2023-11-15+01:00", "t") == 1_700_002_800_000
    assert parse_time("-5", "t") == -5
    assert parse_time("0", "t") == 0
    assert format_time(-1) is None
    assert format_time(None) is None
    assert format_time(253_402_300_800_000) == "253402300800000"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2024", "'2024' is ambiguous: for the year write 2024-01-01T00:00:00Z, for milliseconds 02024"),
        ("soon", "'soon' is neither milliseconds since the epoch nor ISO 8601"),
        ("", "neither milliseconds"),
        ("1e3", "neither milliseconds"),
        ("٢٠٢٤", "neither milliseconds"),
        ("2023-11-15", r"has no time zone; write 2023-11-15Z for UTC, or 2023-11-15\+01:00"),
        ("2023-11-15T06:39:50", "has no time zone; write 2023-11-15T06:39:50Z for UTC"),
        ("2023-11-31Z", "neither milliseconds"),
        (str(1 << 63), "not within"),
    ],
)
def test_what_is_no_time_is_refused_with_a_way_out(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"the start .*{says}"):
        parse_time(text, "the start")


def test_a_short_number_can_still_be_milliseconds() -> None:
    assert parse_time("02024", "t") == 2024
    assert to_millis(2024, "t") == 2024, "an int of Python is a number of milliseconds"


@pytest.mark.parametrize("wrong", [1.5, True, b"1700030390000", None])
def test_other_types_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="t must be a "):
        to_millis(wrong, "t")


def test_before_1970() -> None:
    assert since_1970(0, "t") == 0
    with pytest.raises(ValueError, match="t is -1, before 1970; only times from 0 on"):
        since_1970(-1, "t")


@pytest.mark.parametrize(
    "words",
    [
        ["export", DATA, "OUT", "--from", "2024"],
        ["export", DATA, "OUT", "--until", "2024"],
        ["cat", DATA, "-t", "orders", "-o", "s@2024"],
        ["cat", DATA, "-t", "orders", "-o", "e@2024"],
        ["offsets", DATA, "--time", "2024"],
    ],
    ids=lambda words: " ".join(map(str, words[:1] + words[-2:])),
)
def test_the_command_line_takes_a_year_for_neither(
    words: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "out") if word == "OUT" else str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert "'2024' is ambiguous" in error
    assert "2024-01-01T00:00:00Z" in error


def test_every_command_takes_iso_and_milliseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[tuple[str, str]] = []
    for when in (str(MOMENT), "2023-11-15T06:39:50Z", "2023-11-15T07:39:49.999999+01:00"):
        file = tmp_path / f"{len(answers)}.csv"
        assert main(["export", str(DATA), str(file), "-t", "orders", "--columns", "offset", "--from", when]) == 0
        capsys.readouterr()
        assert main(["cat", str(DATA), "-t", "orders", "-o", f"s@{when}", "-f", "%o\\n"]) == 0
        assert main(["offsets", str(DATA), "--topic", "orders", "--time", when]) == 0
        answers.append((file.read_text(), capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]


def test_starting_and_ending_times_share_a_border() -> None:
    """An end is exclusive: two reads that share a datetime give each record once, whatever its fraction."""
    border = EPOCH + timedelta(milliseconds=MOMENT, microseconds=1)
    before = kafkalog.read_table(DATA, "orders", ending_timestamp=border, columns="offset")
    after = kafkalog.read_table(DATA, "orders", starting_timestamp=border, columns="offset")
    assert before.num_rows + after.num_rows == 880
    assert before.num_rows
    assert after.num_rows
    exact = kafkalog.read_table(DATA, "orders", starting_timestamp=MOMENT + 1, columns="offset")
    assert exact == after
