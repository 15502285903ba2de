"""Records that a read requests and the log no longer has: an error, or a warning in the log (``failOnDataLoss``)."""

from __future__ import annotations

import logging

from kafkalog.errors import OffsetOutOfRangeError

__all__ = ["report_data_loss"]

_log = logging.getLogger("kafkalog.spark")


def report_data_loss(text: str, *, fail: bool, path: str | None = None, offset: int | None = None) -> None:
    """Report missing records."""
    if fail:
        raise OffsetOutOfRangeError(
            f"{text}; set failOnDataLoss=false to continue without these records", path=path, offset=offset
        )
    # Where logging is not configured, a driver's log shows no logger names: the message carries ours.
    _log.warning("kafkalog: data loss: %s", text)
