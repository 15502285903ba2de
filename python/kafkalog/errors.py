"""The exceptions of kafkalog.

I/O failures are ``OSError`` with errno and filename; bad arguments are ``ValueError`` or ``TypeError``. All others are
a :class:`KafkaLogError`. The compiled module raises these classes with path, position and offset. They are plain Python
so that they pickle: Spark sends them from worker to driver.
"""

__all__ = [
    "CorruptIndexError",
    "CorruptRecordError",
    "InternalError",
    "InvalidRecordError",
    "KafkaLogError",
    "LogLockedError",
    "OffsetOutOfRangeError",
    "UnknownTopicOrPartitionError",
    "UnsupportedFormatError",
]


class KafkaLogError(Exception):
    """Base class of all errors about a log.

    Parameters
    ----------
    message : str
        One line: where, what was expected, what was found.
    path : str, optional
        The file or folder.
    position : int, optional
        The byte position in it.
    offset : int, optional
        The offset of the record or batch.

    Attributes
    ----------
    path, position, offset
        The parameters; None where not known.
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
    """Bytes of a ``.log`` file do not match their checksum, their structure or the batches around them.

    Of a segment in a tier also if the objects that it is made of are damaged: ``path`` and ``position`` are theirs.
    """


class CorruptIndexError(KafkaLogError):
    """An index, snapshot or checkpoint is corrupt, and was read directly."""


class InvalidRecordError(KafkaLogError):
    """A batch passes its checksum, but its records are invalid (Kafka's ``InvalidRecordException``)."""


class UnsupportedFormatError(KafkaLogError):
    """A magic, codec or version that this version of kafkalog does not know."""


class LogLockedError(KafkaLogError):
    """A broker or another writer holds the lock of the log dir (``.lock``)."""


class OffsetOutOfRangeError(KafkaLogError, LookupError):
    """An offset below the log start or beyond the log end."""


class UnknownTopicOrPartitionError(KafkaLogError, ValueError):
    """A topic or partition that was named does not exist in the log dirs."""


class InternalError(KafkaLogError, RuntimeError):
    """A bug in kafkalog, not a fault of the data or the caller. Please report it with its message."""
