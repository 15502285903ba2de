"""Topics in full: a time line, batch sizes, codecs, gaps and odd timestamps of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _reprs
from kafkalog.report import columns, svg
from kafkalog.report.columns import Kind
from kafkalog.report.html import Html, element, join, moment, shown, span
from kafkalog.report.tables import explanations, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.report.model import Row


def details(numbers: Row) -> Html:
    """Write the topics that are shown in full."""
    if not numbers["details"]:
        return element("p", "No topic here has a batch.")
    shown_ = numbers["details"]
    several = "the others as one" if numbers["summary"]["topics"] > len(shown_) else "all of them"
    about = (
        f"The largest topics in full, {several}, from the headers of all batches. A time line has the bytes and the "
        "records of batches by their largest timestamp, by which retention goes too."
    )
    legend = explanations((*columns.CODECS.columns, *columns.SIZES.columns))
    return join([element("p", about), legend, *(_topic(n, each) for n, each in enumerate(shown_))])


def _topic(n: int, detail: Row) -> Html:
    figures, name = detail["figures"], f"details.{n}"
    parts = [
        element("h3", detail["topic"]),
        element("dl", *_facts(figures), class_="facts"),
        _timeline(detail["topic"], figures["timeline"]),
        element(
            "div",
            _sizes(detail["topic"], figures["sizes"], f"{name}.figures.sizes"),
            table(columns.CODECS, detail["codecs"], f"{name}.codecs", about=detail["topic"]),
            class_="pair",
        ),
    ]
    return element("article", *parts, data_of=f"{name}.figures")


def _facts(figures: Row) -> Iterator[Html]:
    """Yield the figures of the batches, each with a line about it."""
    batches = figures["batches"]
    mean = figures["bytes"] // batches if batches else 0
    smallest, largest = (shown(figures[name], Kind.BYTES) for name in ("smallest", "largest"))
    about = f"{smallest} to {largest} each, {_reprs.size(mean)} on average"
    yield _fact("Batches", "batches", figures, Kind.COUNT, about)
    each = f"{figures['records'] / batches:,.1f} a batch" if batches else ""
    yield _fact("Records", "records", figures, Kind.COUNT, f"{each}, as the headers count")
    yield _fact("Bytes", "bytes", figures, Kind.BYTES, "length of the batches")
    missing = figures["missingOffsets"]
    about = f"{missing:,} offsets missing between batches" if missing else "no offset is missing between batches"
    yield _fact("Gaps", "gaps", figures, Kind.COUNT, about)
    yield _fact("Holes", "holes", figures, Kind.COUNT, "offsets inside batches without a record: compacted away")
    latest = moment(figures["latestTimestamp"]) or "none"
    about = f"batches with a timestamp after the time of the report; the latest is {latest}"
    yield _fact("In the future", "futureBatches", figures, Kind.COUNT, about)
    back = figures["largestStepBackMs"]
    about = "batches that begin before the batch ahead of them ended" + (f", by up to {span(back)}" if back else "")
    yield _fact("Out of order", "lateBatches", figures, Kind.COUNT, about)


def _fact(label: str, key: str, figures: Row, kind: Kind, about: str) -> Html:
    value = element("dd", shown(figures[key], kind), class_="figure", data_key=key, data_v=figures[key])
    return element("div", element("dt", label), value, element("dd", about))


def _timeline(topic: str, line: Row | None) -> Html:
    if line is None:
        return element("p", "No batch has a timestamp.", class_="quiet")
    start, step = line["start"], line["stepMs"]
    times = [start + n * step for n in range(len(line["bytes"]))]
    titles = [
        f"{moment(time)}: {_reprs.size(size)}, {records:,} records"
        for time, size, records in zip(times, line["bytes"], line["records"], strict=True)
    ]
    end = moment(start + step * len(times))
    label = f"{topic}: %s by time from {moment(start)} to {end}, in steps of {span(step)}; at most %s in one"
    most = _reprs.size(max(line["bytes"])), f"{max(line['records']):,}"
    besides = [
        f"{_reprs.size(line[f'{key}Bytes'])} {words}"
        for key, words in (
            ("undated", "without a timestamp"),
            ("before", "before the time line"),
            ("future", "after it, in the future"),
        )
        if line[f"{key}Bytes"]
    ]
    more = f" Not in it: {', '.join(besides)}." if besides else ""
    return element(
        "figure",
        element("figcaption", f"Bytes in steps of {span(step)}, at most {most[0]}.{more}"),
        svg.bars(line["bytes"], titles, label % ("bytes", most[0]), height=84),
        element("p", f"Records, at most {most[1]} in a step.", class_="between"),
        svg.bars(line["records"], titles, label % ("records", most[1]), height=46, class_="second"),
        element(
            "p",
            *(element("span", time) for time in (moment(start), moment(times[len(times) // 2]), end)),
            class_="axis",
        ),
    )


def _sizes(topic: str, sizes: list[Row], name: str) -> Html:
    """Draw how many batches have which size, and write the table of it."""
    powers = {row["least"].bit_length() - 1: row for row in sizes}
    every = range(min(powers), max(powers) + 1)
    values = [powers[power]["batches"] if power in powers else 0 for power in every]
    titles = [
        f"{_reprs.size(1 << power)} to {_reprs.size(2 << power)}: {value:,} batches"
        for power, value in zip(every, values, strict=True)
    ]
    label = f"{topic}: batches by size from {_reprs.size(1 << every[0])} to {_reprs.size(2 << every[-1])}"
    most = f"{max(values):,} batches" if max(values) > 1 else "1 batch"
    caption = f"Batches by size, {_reprs.size(1 << every[0])} and more; the highest bar is {most}."
    return element(
        "div",
        element(
            "figure",
            element("figcaption", caption),
            svg.bars(values, titles, label, height=46, class_="third"),
        ),
        table(columns.SIZES, sizes, name, about=topic),
    )
