"""Parts that an output leaves out, and safe comments about them: names in the data may hold any character."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.metadata.cluster import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.metadata.cluster import Cluster


class Remainder:
    """Collects what an output does not have, by the reason."""

    def __init__(self, known: Iterable[LeftOut]) -> None:
        self._names = {each.why: [*each.names] for each in known}

    def add(self, why: str, *names: object) -> None:
        """Add things."""
        if names:
            self._names.setdefault(why, []).extend(map(str, names))

    def __iter__(self) -> Iterator[LeftOut]:
        return (LeftOut(why, names) for why, names in self._names.items())

    def comments(self, head: str) -> Iterator[str]:
        """Yield lines about all of it."""
        for each in self:
            yield f"# {head}: {each.why}:\n"
            for name in each.names:
                yield f"#   {plain(name)}\n"


def origin(cluster: Cluster) -> Iterator[str]:
    """Yield lines about where an output comes from."""
    yield f"# {', '.join(cluster.parts)} of cluster {plain(cluster.cluster_id or '(unknown)')}\n"
    yield "# by kafkalog metadata, from\n"
    for path in [cluster.metadata_path] if cluster.metadata_path is not None else cluster.paths:
        yield f"#   {plain(path)}\n"


def plain(text: str) -> str:
    """Escape what ends a line or moves the cursor: nothing after it may count as a command."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
