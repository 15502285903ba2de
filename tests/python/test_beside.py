"""One writer, and beside it four reading processes and four reading threads: ``reading.py`` says what must hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog

SECONDS = 60 if os.environ.get("KAFKALOG_SLOW", "0") != "0" else 4


@pytest.mark.timeout(300)
def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """No torn read and no wrong lookup; a minute in the slow profile (``KAFKALOG_SLOW=1``)."""
    program = str(Path(__file__).with_name("reading.py"))
    (tmp_path / "known").write_bytes(bytes(8))
    roles = [["write", str(SECONDS)], *([["read", "1"]] * 4), ["read", "4"]]
    started = [
        subprocess.Popen(
            [sys.executable, program, role, str(tmp_path), how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role, how in roles
    ]
    try:
        said = [process.communicate(timeout=SECONDS + 120) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(roles), [errors for _, errors in said if errors]
    print(f"{SECONDS} s: passes and rows read", *[out.strip() for out, _ in said[1:]], sep="; ")


def test_what_is_read_is_settled_also_where_the_file_has_room(tmp_path: Path) -> None:
    """Batches that go into the zeros of a preallocated file behind the planning are no part of the read."""
    config = kafkalog.LogConfig(preallocate=True, segment_bytes=20_000)
    with kafkalog.LogWriter(tmp_path, "t", config=config) as writer:
        log = tmp_path / "t-0" / f"{0:020}.log"
        readers = []
        for turn in range(4):
            assert log.stat().st_size == 20_000
            readers += [(turn, kafkalog.scan(tmp_path, columns="value")), (turn, kafkalog.scan(log, columns="value"))]
            writer.append([kafkalog.Record(b"%d" % turn)])
        for planned, reader in readers:
            assert reader.read_all()["value"].to_pylist() == [b"%d" % n for n in range(planned)]
