"""What can go wrong, by name.

I/O failures are ``OSError`` with errno and filename, bad arguments ``ValueError`` or ``TypeError``:
the names Python has already. Everything here is about the bytes that were read.

The compiled module raises these classes; they are plain Python so that they pickle (Spark ships them).
"""

__all__ = [
    "CorruptIndexError",
    "CorruptRecordError",
    "InternalError",
    "InvalidRecordError",
    "KafkaLogError",
    "LogLockedError",
    "OffsetOutOfRangeError",
    "UnsupportedFormatError",
]


class KafkaLogError(Exception):
    """Base of all errors about a log.

    Parameters
    ----------
    message : str
        One line: the place, what was expected, what was found.
    path : str, optional
        The file or folder.
    position : int, optional
        The byte in it.
    offset : int, optional
        The offset of the record or batch.

    Attributes
    ----------
    path : str or None
        The file or folder.
    position : int or None
        The byte in it.
    offset : int or None
        The offset of the record or batch.
    """

    path: str | None
    position: int | None
    offset: int | None

    def __init__(
        self,
        message: str,
        path: str | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        # Only the message goes into args: pickle calls the class with args and then restores the attributes.
        super().__init__(message)
        self.path = path
        self.position = position
        self.offset = offset


class CorruptRecordError(KafkaLogError):
    """Bytes of a ``.log`` file contradict their checksum, their structure or their neighbours."""


class CorruptIndexError(KafkaLogError):
    """An index, snapshot or checkpoint that was asked for by itself is unsound."""


class InvalidRecordError(KafkaLogError):
    """A batch is whole, yet its records break the format (Kafka's ``InvalidRecordException``)."""


class UnsupportedFormatError(KafkaLogError):
    """A magic, codec or version that this build does not know."""


class LogLockedError(KafkaLogError):
    """Another process holds the log dir's ``.lock``."""


class OffsetOutOfRangeError(KafkaLogError, LookupError):
    """An offset below the log start or beyond the log end."""


class InternalError(KafkaLogError, RuntimeError):
    """A bug in kafkalog, not a fault of the data or the caller. Please report it with its message."""
