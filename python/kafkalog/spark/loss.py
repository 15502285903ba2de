"""Records that were asked for and are not there: an error, or a line in the log (``failOnDataLoss``)."""

from __future__ import annotations

import logging

from kafkalog.errors import OffsetOutOfRangeError

__all__ = ["report"]

_log = logging.getLogger("kafkalog.spark")


def report(text: str, *, fail: bool, path: str | None = None, offset: int | None = None) -> None:
    """Say that records are gone.

    Parameters
    ----------
    text : str
        Which ones.
    fail : bool
        The option ``failOnDataLoss``.
    path : str, optional
        The partition's folder.
    offset : int, optional
        The first that is gone.

    Raises
    ------
    OffsetOutOfRangeError
        Where data loss is an error.
    """
    if fail:
        raise OffsetOutOfRangeError(f"{text}; failOnDataLoss=false reads what there is", path=path, offset=offset)
    # A driver's log has lines of many, and no logger's name where nobody set logging up.
    _log.warning("kafkalog: data loss: %s", text)
