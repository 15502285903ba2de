"""Verification of results: a result counts as finished only if it has no errors that its source did not have."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _core
from kafkalog.errors import CorruptIndexError, CorruptRecordError, InvalidRecordError, UnsupportedFormatError
from kafkalog.log import partition_at
from kafkalog.reader import scan
from kafkalog.tools.verification import verify

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

UNFINISHED = ".kafkalog-unfinished"
_OF_BATCHES = ("batch-", "segment-missing")
# Lines that are logged of a source; its report has all.
_MOST_LOGGED = 20
_log = logging.getLogger("kafkalog")


class Soundness:
    """Errors that verification finds in a source before the work; nothing else may be wrong with the result."""

    def __init__(self, source: str) -> None:
        self._source, self._root = source, _root_of(source)
        found = list(_errors(source, self._root))
        self._known = {key for key, _ in found}
        self._rows = [row for _, row in found]
        self.errors = tuple(f"{row['file']}: {row['message']} ({row['code']})" for _, row in found)
        for text in self.errors[:_MOST_LOGGED]:
            _log.warning("in the source: %s", text)
        if len(self.errors) > _MOST_LOGGED:
            _log.warning("in the source: %d more errors", len(self.errors) - _MOST_LOGGED)

    def require_aborted(self, topics: Collection[str]) -> None:
        """Refuse transaction indexes of these topics that contradict the log: a cleaner relies on them."""
        for row in self._rows:
            if row["code"].startswith("txn-index-") and row["topic"] in topics:
                raise CorruptIndexError(
                    f"{row['file']}: {row['message']}; compaction would take aborted records for committed ones, "
                    "or the other way: rebuild the indexes first (kafkalog rebuild)",
                    row["file"],
                    position=row["position"],
                    offset=row["offset"],
                )

    def finish(self, out: str) -> None:
        """Verify the result, and remove the note that it is not finished; with a new error the note stays."""
        self.require(out)
        Path(out, UNFINISHED).unlink()

    def require(self, out: str) -> None:
        """Verify the result; raise for an error that the source does not have."""
        for key, row in _errors(out, out):
            if not self._knows(key) and not self._lacks_too(row):
                raise CorruptRecordError(
                    f"{row['file']}: the result does not verify: {row['message']} ({row['code']})",
                    row["file"],
                    position=row["position"],
                    offset=row["offset"],
                )

    def _knows(self, key: tuple[Any, ...]) -> bool:
        """Return whether the source has an error, about the same offset if it is about one."""
        return key in self._known or (key[-1] is None and any(key[:-1] == each[:-1] for each in self._known))

    def _lacks_too(self, row: dict[str, Any]) -> bool:
        """Return whether a segment that is missing in the result holds no record of the source.

        What tells the cleaner's work from a missing segment may lie in another segment now.
        """
        if row["code"] != "segment-missing":
            return False
        folder = Path(row["file"]).parent
        source = self._source if self._source != self._root else str(Path(self._root, folder.name))
        begin = row["offset"]
        bases = [base for base, *_ in _core.PartitionLog(str(folder)).segments()]
        end = min((base for base in bases if base > begin), default=begin)
        with scan(
            source,
            columns=["offset"],
            starting_offsets=begin,
            ending_offsets=end,
            include_control=True,
            on_corrupt="skip",
        ) as reader:
            return not any(batch.num_rows for batch in reader)


def checked(source: str, out: str) -> Soundness:
    """Verify a source, after making sure that the output may be written at all."""
    _core.check_free(source, out)
    return Soundness(source)


@contextmanager
def way_out(on_corrupt: Literal["raise", "skip"] | None = None) -> Iterator[None]:
    """Add what to do to an error about damage in a source; ``on_corrupt`` is the verb's, if it has one.

    The shell has options of the same names.
    """
    try:
        yield
    except (CorruptRecordError, CorruptIndexError, InvalidRecordError, UnsupportedFormatError) as error:
        if on_corrupt == "skip":
            raise
        if on_corrupt == "raise":
            option, way = 'on_corrupt="skip"', 'on_corrupt="skip" leaves out what is damaged'
        else:
            option, way = "salvage", "kafkalog recover --salvage keeps every batch that is whole and in order"
        if option not in str(error):
            error.args = (f"{error}; {way}",)
        raise


def _root_of(source: str) -> str:
    """Return the log dir of a source, by which the paths of findings are those of the result."""
    return source if partition_at(source) is None else str(Path(source).parent)


def _errors(path: str, root: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the errors with what makes them the same in another log dir.

    Segments may begin elsewhere there, and where a damaged batch was left out its offsets are missing.
    """
    for row in verify(path).to_pylist():
        if row["severity"] == "error":
            file = Path(row["file"])
            name = file.name if file.parent == Path(root) else file.parent.name
            code = "batch" if row["code"].startswith(_OF_BATCHES) else row["code"]
            # Of a transaction or a batch, the first offset that is left.
            offset = None if row["code"] in {"txn-index-missing-entry", "batch-offsets"} else row["offset"]
            yield (code, name, row["topic"], row["partition"], offset), row
