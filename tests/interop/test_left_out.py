"""A real broker starts on what each verb writes of log dirs with folders on which none starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.mount import complaints, consumed, insert

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interop.broker import Broker

pytestmark = [pytest.mark.interop, pytest.mark.full]

TOPIC = "kept"
FOREIGN = ("lost+found", ".snapshot", "tmp")
OPTIONS: dict[str, dict[str, Any]] = {
    "compact": {"roll": True},
    "retain": {},
    "rewrite": {"drop_keys": [b"nobody"]},
    "recover": {},
}


def test_a_broker_starts_on_the_result(broker: Broker, tmp_path: Path) -> None:
    broker.create(TOPIC, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    broker.driver.ask("write", topic=TOPIC, partitions=1, seed=1, batches=40, keyed=True)
    latest = {row.key: row for row in consumed(broker, TOPIC)}
    broker.stop()
    for log_dir in broker.log_dirs:
        log_dir.rename(tmp_path / log_dir.name)
        for name in FOREIGN:
            (tmp_path / log_dir.name / name).mkdir()
    for verb, options in OPTIONS.items():
        run: Callable[..., Any] = getattr(kafkalog, verb)
        for log_dir in broker.log_dirs:
            shutil.rmtree(log_dir, ignore_errors=True)
            report = run(tmp_path / log_dir.name, out=log_dir, **options)
            assert {each.path for each in report.left_out} >= {str(tmp_path / log_dir.name / name) for name in FOREIGN}
        broker.start()
        assert {row.key: row for row in consumed(broker, TOPIC)} == latest, verb
        assert complaints(broker, TOPIC) == []
        broker.stop()
    folder = broker.folder(TOPIC)
    (folder / "lost+found").mkdir()
    end = kafkalog.PartitionLog(folder).log_end_offset
    kafkalog.truncate(folder, tmp_path / "cut", end - 1)
    (folder / "lost+found").rmdir()
    insert(broker, tmp_path / "cut" / f"{TOPIC}-0", TOPIC)
    broker.start()
    assert complaints(broker, TOPIC) == []
    assert consumed(broker, TOPIC)


def test_no_broker_starts_with_such_a_folder(broker: Broker) -> None:
    """Else nothing would have to stay behind."""
    broker.stop()
    (broker.log_dirs[0] / "lost+found").mkdir()
    with pytest.raises(AssertionError, match="the broker ended"):
        broker.start()
    codes = [row["code"] for row in kafkalog.verify(broker.log_dirs[0]).to_pylist()]
    assert "unknown-folder" in codes
