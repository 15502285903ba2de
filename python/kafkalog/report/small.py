"""The overview of a log dir in a notebook: sums, a treemap and the largest partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _reprs
from kafkalog.report.html import Html, element, join
from kafkalog.report.svg import treemap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog.report.model import Row

# A notebook has its own colours: these are of the text and its background.
_STYLE = (
    ".kafkalog .treemap rect{fill:none;stroke:currentColor;stroke-opacity:.5}"
    ".kafkalog .treemap .part rect{fill:currentColor;fill-opacity:.08}"
    ".kafkalog .treemap text{fill:currentColor;font-size:12px}.kafkalog .narrow{display:none}"
)


def overview(path: str, meta: Mapping[str, str], partitions: Sequence[Row], listing: str) -> str:
    """Return the overview of a log dir, given the bytes of its live partitions, and the table below it."""
    topics: dict[str, Row] = {}
    for each in partitions:
        topic = topics.setdefault(each["topic"], {"topic": each["topic"], "diskBytes": 0, "bytesFreeable": 0})
        topic["diskBytes"] += each["diskBytes"]
    ranked = sorted(topics.values(), key=lambda topic: -topic["diskBytes"])
    size = sum(topic["diskBytes"] for topic in ranked)
    about = ", ".join(
        [
            *(f"{name} {meta[key]}" for name, key in (("cluster", "cluster.id"), ("node", "node.id")) if key in meta),
            _reprs.count(len(topics), "topic"),
            _reprs.count(len(partitions), "partition"),
            f"{_reprs.size(size)} in .log files",
        ]
    )
    drawn = [element("p", about)]
    if size:
        label = f"Bytes in {path} by topic and partition"
        largest = sorted(partitions, key=lambda each: -each["diskBytes"])
        nothing = {"topic": "", "diskBytes": 0, "bytesFreeable": 0}
        drawn += [element("style", Html(_STYLE)), treemap(ranked, largest, nothing, label, height=160.0)]
    more = element("p", f"kafkalog report {path} -o report.html shows more.")
    return str(element("div", join(drawn), Html(listing), more, class_="kafkalog"))
