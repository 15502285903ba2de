"""Drawings: a treemap of topics and partitions, and bars. They take the width of the page; text keeps its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _reprs
from kafkalog.report.html import Html, element, join
from kafkalog.report.treemap import Box, squarified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog.report.model import Row

# Nominal pixels, of a screen and of a telephone: a style shows one of them.
WIDE, NARROW = 1120.0, 344.0
_MOST_TOPICS, _MOST_PARTITIONS = 40, 60
_HEADING, _MARGIN = 18.0, 2.0
# Smaller ones have no room for a label, or for what is in them.
_LABEL_WIDTH, _LABEL_HEIGHT = 26.0, 15.0
_DIVIDED_WIDTH, _DIVIDED_HEIGHT = 44.0, 44.0
_PIXELS_A_CHARACTER = 6.6


def patterns() -> Html:
    """Return the hatching of what can be freed, for all drawings of a page."""
    line = element("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2", class_="hatch")
    pattern = element("pattern", line, id="free", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("svg", element("defs", pattern), width=0, height=0, aria_hidden="true", class_="defs")


def treemap(
    topics: Sequence[Row], partitions: Iterable[Row], beside: Row, label: str, *, height: float = 420.0
) -> Html:
    """Draw topics and their partitions by their bytes on disk, for a screen and for a telephone."""
    by_topic: dict[str, list[Row]] = {}
    for each in partitions:
        if each["diskBytes"] > 0:
            by_topic.setdefault(each["topic"], []).append(each)
    shown = [topic for topic in topics if topic["diskBytes"] > 0]
    cells = [(topic, by_topic.get(topic["topic"], [])) for topic in shown[:_MOST_TOPICS]]
    rest = shown[_MOST_TOPICS:]
    if rest:
        names = ("diskBytes", "bytesFreeable")
        cells.append(({"topic": f"{len(rest)} more topics", **{n: sum(each[n] for each in rest) for n in names}}, []))
    if beside["diskBytes"] > 0:
        cells.append((beside, []))
    cells.sort(key=lambda cell: -cell[0]["diskBytes"])
    return join(
        _treemap(cells, Box(0, 0, width, height), label, name) for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
    )


def _treemap(cells: list[tuple[Row, list[Row]]], whole: Box, label: str, name: str) -> Html:
    boxes = squarified([float(topic["diskBytes"]) for topic, _ in cells], whole)
    drawn = join(_topic(topic, parts, box, whole) for (topic, parts), box in zip(cells, boxes, strict=True))
    return element(
        "svg", drawn, class_=f"treemap {name}", width="100%", height=whole.height, role="img", aria_label=label
    )


def _topic(topic: Row, parts: list[Row], box: Box, whole: Box) -> Html:
    size, free = topic["diskBytes"], topic["bytesFreeable"]
    about = f"{topic['topic']}: {_reprs.size(size)} on disk" + (f", {_reprs.size(free)} free now" if free else "")
    heading = f"{topic['topic']} {_reprs.size(size)}"
    if topic.get("findings"):
        heading = f"\u25b2{topic['findings']} {heading}"
        about += f"; {_reprs.count(topic['findings'], 'finding')}"
    if box.width < _DIVIDED_WIDTH or box.height < _DIVIDED_HEIGHT or not parts:
        return _cell(box, whole, heading, about, free / size, class_="topic leaf")
    inner = box.within(_MARGIN, _HEADING)
    values = [float(each["diskBytes"]) for each in parts[:_MOST_PARTITIONS]]
    left = size - sum(values)
    boxes = squarified([*values, *([left] if left > 0 else [])], inner)
    drawn = [
        _cell(
            each,
            whole,
            str(part["partition"]),
            f"{part['topic']}-{part['partition']}: {_reprs.size(part['diskBytes'])} on disk, "
            f"{_reprs.size(part['bytesFreeable'])} free now",
            part["bytesFreeable"] / part["diskBytes"],
            class_="part",
        )
        for part, each in zip(parts, boxes, strict=False)
    ]
    return join([_cell(box, whole, heading, about, 0, class_="topic"), *drawn])


def _cell(box: Box, whole: Box, label: str, about: str, free: float, *, class_: str) -> Html:
    """Draw a rectangle whose lower part is hatched as far as it can be freed; what does not fit is cut off."""
    parts = [element("title", about), element("rect", width="100%", height="100%")]
    share = min(free, 1.0)
    if share > 0:
        parts.append(element("rect", y=_percent(1 - share), width="100%", height=_percent(share), class_="free"))
    if box.width >= _LABEL_WIDTH and box.height >= _LABEL_HEIGHT:
        room = int((box.width - 6) / _PIXELS_A_CHARACTER)
        short = label if len(label) <= room else f"{label[: max(room - 1, 1)]}\u2026"
        parts.append(element("text", short, x=4, y=13))
    return element(
        "svg",
        *parts,
        x=_percent(box.x / whole.width),
        y=_pixels(box.y),
        width=_percent(box.width / whole.width),
        height=_pixels(box.height),
        class_=class_,
    )


def bars(values: Sequence[int], titles: Sequence[str], label: str, *, height: int = 80, class_: str = "") -> Html:
    """Draw bars of equal width; one that is not 0 can be seen."""
    most = max(values, default=0) or 1
    step = 100 / max(len(values), 1)
    drawn = []
    for n, (value, title) in enumerate(zip(values, titles, strict=True)):
        if value:
            tall = max(value / most * (height - 2), 1.5)
            place = {"x": f"{n * step:.3f}%", "width": f"{step * 0.86:.3f}%"}
            drawn.append(
                element("rect", element("title", title), y=_pixels(height - 1 - tall), height=_pixels(tall), **place)
            )
    base = element("line", x1=0, x2="100%", y1=height - 0.5, y2=height - 0.5)
    return element(
        "svg", *drawn, base, class_=f"bars {class_}".strip(), width="100%", height=height, role="img", aria_label=label
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _pixels(number: float) -> str:
    return f"{number:.1f}"
