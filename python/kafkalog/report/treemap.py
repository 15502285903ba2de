"""A squarified treemap (Bruls, Huizing, van Wijk): rectangles whose areas are proportional to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    def within(self, margin: float, top: float) -> Box:
        """Return what is left inside of a margin, and below a heading."""
        return Box(
            self.x + margin,
            self.y + top,
            max(self.width - 2 * margin, 0.0),
            max(self.height - top - margin, 0.0),
        )


def squarified(values: Sequence[float], box: Box) -> list[Box]:
    """Divide a rectangle among values above 0, the largest first, into parts that are as square as can be."""
    found: list[Box] = []
    whole = sum(values)
    scale = box.width * box.height / whole if whole else 0.0
    areas = [value * scale for value in values]
    first = 0
    while first < len(areas):
        side = min(box.width, box.height)
        if side <= 0:
            found += [Box(box.x, box.y, 0.0, 0.0)] * (len(areas) - first)
            break
        end, worst = first + 1, _worst(areas[first : first + 1], side)
        while end < len(areas) and (wider := _worst(areas[first : end + 1], side)) <= worst:
            end, worst = end + 1, wider
        row = areas[first:end]
        box = _lay(row, box, found)
        first = end
    return found


def _worst(row: Sequence[float], side: float) -> float:
    """Return the worst ratio of the sides of a row of rectangles along a side."""
    total = sum(row)
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))


def _lay(row: Sequence[float], box: Box, found: list[Box]) -> Box:
    """Lay a row along the shorter side, and return what is left."""
    total = sum(row)
    if box.width >= box.height:
        width = total / box.height
        y = box.y
        for area in row:
            found.append(Box(box.x, y, width, area / width))
            y += area / width
        return Box(box.x + width, box.y, max(box.width - width, 0.0), box.height)
    height = total / box.width
    x = box.x
    for area in row:
        found.append(Box(x, box.y, area / height, height))
        x += area / height
    return Box(box.x, box.y + height, box.width, max(box.height - height, 0.0))
