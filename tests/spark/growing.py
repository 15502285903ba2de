"""A partition that grows as on a broker, batch by batch and segment by segment, copied from one of the corpus."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path


class Growing:
    """A copy of a partition folder's ``.log`` files up to some offset."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        folder.mkdir(parents=True)
        with kafkalog.scan_batches(source, starting_offsets="oldest", check_crcs=False) as batches:
            table = batches.read_all().select(["segment", "position", "size", "baseOffset"])
        self.batches = [tuple(row.values()) for row in table.to_pylist()]
        self._written = 0

    def grow(self, offset: int) -> None:
        """Append all batches that start below an offset."""
        for segment, position, size, base in self.batches[self._written :]:
            if base >= offset:
                break
            data = (self.source / segment).read_bytes()[position : position + size]
            with (self.folder / segment).open("ab") as file:
                assert file.tell() == position
                file.write(data)
            self._written += 1

    def retain(self, offset: int) -> int:
        """Delete the closed segments below an offset, as retention does; return the new log start."""
        files = sorted(self.folder.glob("*.log"))
        for file, following in pairwise(files):
            if int(following.stem) > offset:
                return int(file.stem)
            file.unlink()
        return int(files[-1].stem)

    @property
    def end(self) -> int:
        """The log end offset."""
        return kafkalog.PartitionLog(self.folder).log_end_offset
