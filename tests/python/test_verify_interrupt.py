"""Ctrl-C ends a verification, also while other threads work."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_it(threads: int, tmp_path: Path) -> None:
    """Of a hundred directories at once, so that the work would take many seconds."""
    with kafkalog.LogWriter(tmp_path / "logs", "t", config=kafkalog.LogConfig(compression_type="gzip")) as log:
        value = b"abcdefgh" * 5000
        for _ in range(20):
            log.append([kafkalog.Record(value, b"k", 1_700_000_000_000) for _ in range(100)])
    folders = []
    for n in range(100):
        folders.append(tmp_path / str(n))
        (folders[-1] / "t-0").mkdir(parents=True)
        for file in (tmp_path / "logs" / "t-0").iterdir():
            os.link(file, folders[-1] / "t-0" / file.name)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        kafkalog.verify(folders, threads=threads)
    assert time.monotonic() - begun < 20
    timer.join()
