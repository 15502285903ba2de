"""The page: sections of figures, each a function of the numbers that ``--json`` writes."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from kafkalog import _reprs
from kafkalog.report import columns, svg
from kafkalog.report.columns import Kind
from kafkalog.report.html import Html, element, join, moment, shown
from kafkalog.report.tables import table
from kafkalog.report.topics import details

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.report.model import Row

_TEMPLATES = Path(__file__).parent / "templates"
_DAY = 86_400_000
_ADDED_UP = ("partitions", "diskBytes", "size", "segments", "records", "bytesFreeable")
_REDACTED = (
    "Names of topics, groups, clients, hosts and transactional ids, and paths, are hashes (--redact). A name has the "
    "same hash in every report; who guesses a name can check the guess."
)
_MARKS = {"error": "\u2716 error", "warning": "\u25b2 warning", "info": "\u2139 info"}


def page(numbers: Row) -> str:
    """Return the page of an overview, given as ``--json`` writes it."""
    style, script = _template("style.css"), _template("script.js")
    sections = [
        ("findings", "Findings", _findings(numbers)),
        ("disk", "Where the bytes are", _disk(numbers)),
        ("retention", "Retention", _retention(numbers)),
        ("partitions", "Partitions", _partitions(numbers)),
        ("topics", "Topics", details(numbers)),
        ("transactions", "Transactions", _transactions(numbers)),
        ("groups", "Groups", _groups(numbers)),
        *([("schemas", "Schemas", _schemas(numbers))] if numbers["schemas"] else []),
        ("about", "About this report", _about(numbers)),
    ]
    links = (element("a", title, href=f"#{name}") for name, title, _ in sections)
    return Template(_template("page.html")).substitute(
        title=element("title", f"kafkalog report: {_name(numbers)}"),
        policy=_policy(style, script),
        style=style,
        script=script,
        patterns=svg.patterns(),
        header=_header(numbers),
        tiles=element("dl", *_tiles(numbers), class_="tiles"),
        links=join(links),
        sections=join(
            element("section", element("h2", title), body, id=name, aria_label=title) for name, title, body in sections
        ),
    )


def _policy(style: str, script: str) -> str:
    """Return a content security policy under which nothing is loaded, and nothing runs but our own script."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src 'sha256-{digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _name(numbers: Row) -> str:
    """Name what was read: its cluster, or its folders."""
    clusters = sorted({each["clusterId"] for each in numbers["dirs"] if each["clusterId"]})
    nodes = sorted({str(each["nodeId"]) for each in numbers["dirs"] if each["nodeId"] is not None})
    if not clusters:
        return _reprs.short_list([each["path"] for each in numbers["dirs"]], 2)
    node = f", node {', '.join(nodes)}" if nodes else ""
    return f"cluster {', '.join(clusters)}{node}"


def _header(numbers: Row) -> Html:
    kicker = element("p", f"kafkalog {numbers['version']} \u00b7 read {moment(numbers['readAt'])}", class_="kicker")
    name = _name(numbers)
    return join(
        [
            kicker,
            element("h1", name[:1].upper() + name[1:] if name.startswith("cluster ") else name),
            element("p", *_verdict(numbers["findings"]), " ", _size_sentence(numbers["summary"]), class_="lead"),
            _identity(numbers),
        ]
    )


_UNREAD_BYTES = "Headers and indexes were read; kafkalog verify, or report --verify, reads checksums and records, too."


def _verdict(findings: Row) -> Iterator[Html | str]:
    """Say whether something is damaged."""
    unread = len(findings["unread"])
    left = f" {_reprs.count(unread, 'thing')} could not be read." if unread else ""
    if not findings["verified"]:
        yield element("strong", "\u25cb Not verified.", class_="mark info")
        yield f" Only headers and indexes were read; kafkalog verify reads everything.{left}"
    elif findings["errors"] or unread:
        worst = [_reprs.count(findings[f"{name}s"], name) for name in ("error", "warning") if findings[f"{name}s"]]
        yield element("strong", f"\u2716 Damaged: {' and '.join(worst) or 'not all can be read'}.", class_="mark error")
        yield left
    elif findings["warnings"]:
        text = f"\u25b2 {_reprs.count(findings['warnings'], 'warning')}, no error."
        yield element("strong", text, class_="mark warning")
    else:
        yield element("strong", "\u2714 No damage found.", class_="mark good")
    if findings["headersOnly"]:
        yield f" {_UNREAD_BYTES}"


def _size_sentence(summary: Row) -> str:
    topics = _reprs.count(summary["topics"], "topic")
    free = summary["bytesFreeable"]
    return (
        f"{topics} with {_reprs.count(summary['partitions'], 'partition')} take "
        f"{_reprs.size(summary['diskBytes'])} on disk; "
        + (f"{_reprs.size(free)} of it can be freed now." if free else "nothing of it can be freed now.")
    )


def _identity(numbers: Row) -> Html:
    """Name cluster, node, log dirs and level."""
    formats = ", ".join(f"v{magic}" for magic in numbers["magics"]) or "no batches"
    dirs = numbers["dirs"]
    clean = {True: "yes", False: "no (running, or killed)", None: "unknown"}
    facts = [
        ("Log dirs", _reprs.short_list([each["path"] for each in dirs], 3)),
        ("Cluster", ", ".join(sorted({each["clusterId"] or "unknown" for each in dirs}))),
        ("Node", ", ".join(sorted({str(each["nodeId"] or "unknown") for each in dirs}))),
        ("Kafka level", f"{numbers['metadataVersion'] or 'no metadata log'}; record formats: {formats}"),
        ("Stopped cleanly", ", ".join(sorted({clean[each["cleanShutdown"]] for each in dirs}))),
        ("Retention as of", moment(numbers["now"])),
    ]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts), class_="identity"
    )


def _tiles(numbers: Row) -> Iterator[Html]:
    """Yield the figures that a reader wants first, each with its unit and what it means."""
    sums, findings = numbers["summary"], numbers["findings"]

    def tile(label: str, value: Any, kind: Kind, about: str, class_: str = "") -> Html:
        exact = f"{value:,} bytes" if kind is Kind.BYTES else None
        number = element("dd", shown(value, kind), class_="figure", title=exact, data_v=value)
        return element("div", element("dt", label), number, element("dd", about), class_=f"tile {class_}".strip())

    if findings["verified"]:
        bad = "error" if findings["errors"] else "warning" if findings["warnings"] else "good"
        how = "verify --headers-only" if findings["headersOnly"] else "verify"
        about = f"found by {how}; and {_reprs.count(findings['infos'], 'remark')} on what brokers leave"
        yield tile("Errors and warnings", findings["errors"] + findings["warnings"], Kind.COUNT, about, bad)
    about = f"all files and folders, as du counts; {_reprs.size(sums['allocatedBytes'])} allocated"
    yield tile("On disk", sums["diskBytes"], Kind.BYTES, about)
    yield tile("Free now", sums["bytesFreeable"], Kind.BYTES, "what retention deletes at its next check, and leftovers")
    about = "in batch headers, transaction markers among them"
    if sums["legacyBatches"]:
        about += f"; {sums['legacyBatches']:,} old messages do not say"
    yield tile("Records", sums["records"], Kind.COUNT, about)
    yield tile("Batches", sums["batches"], Kind.COUNT, f"in {_reprs.count(sums['segments'], 'segment')}")
    hanging = sums["hangingTransactions"]
    about = f"{hanging} hanging: no coordinator will end them" if hanging else "read_committed consumers wait for them"
    yield tile("Open transactions", sums["openTransactions"], Kind.COUNT, about, "warning" if hanging else "")
    about = f"of {_reprs.count(sums['groups'], 'group')}; {sums['lag']:,} records of lag in all"
    yield tile("Groups behind", sums["groupsBehind"], Kind.COUNT, about)
    if sums["maxTimestamp"] is not None:
        about = f"largest timestamp; the smallest is {moment(sums['minTimestamp'])}"
        yield tile("Latest record", sums["maxTimestamp"], Kind.TIME, about, "long")


def _findings(numbers: Row) -> Html:
    findings = numbers["findings"]
    parts = []
    if not findings["verified"]:
        parts.append(element("p", "Nothing was verified: kafkalog verify reads every byte, and finds damage."))
    elif not findings["codes"]:
        what = "the headers and indexes of every file" if findings["headersOnly"] else "every file"
        parts.append(element("p", f"verify read {what} and found nothing to report."))
    if findings["unread"]:
        parts.append(element("h3", "Could not be read"))
        parts.append(element("p", "Left out of the figures below; everything else is shown."))
        parts.append(element("ul", *(element("li", line) for line in findings["unread"]), class_="lines"))
    if findings["codes"]:
        parts.append(table(columns.CODES, findings["codes"], "findings.codes", cells={"severity": _marked}))
        parts.append(_short_findings(numbers))
    return join(parts)


def _marked(row: Row) -> Html:
    return element("span", _MARKS.get(row["severity"], row["severity"]), class_=f"mark {row['severity']}")


def _short_findings(numbers: Row) -> Html:
    """Show findings with the files as they are called in the log dir."""
    rows = numbers["findings"]["rows"]
    dirs = [each["path"].rstrip("/") + "/" for each in numbers["dirs"]]

    def file(row: Row) -> str:
        found: str = row["file"]
        if len(dirs) == 1:
            return found.removeprefix(dirs[0])
        return found

    whole = numbers["findings"]
    count = whole["errors"] + whole["warnings"] + whole["infos"]
    more = f"The worst {len(rows)} of {count:,}." if count > len(rows) else ""
    return table(columns.FINDINGS, rows, "findings.rows", more, cells={"severity": _marked, "file": file})


def _disk(numbers: Row) -> Html:
    topics = numbers["topics"]
    beside = {"topic": "other files", "diskBytes": numbers["besideBytes"], "bytesFreeable": numbers["besideFreeable"]}
    whole = numbers["summary"]
    label = "Bytes on disk by topic and partition: " + "; ".join(
        f"{each['topic']} {_reprs.size(each['diskBytes'])}" for each in topics[:5]
    )
    others = [numbers["otherTopics"]] if numbers["otherTopics"] else []
    drawing = element(
        "figure",
        svg.treemap([*topics, *others], numbers["partitions"], beside, label),
        element(
            "figcaption",
            "Areas are bytes on disk: a box for each topic, and in it a box for each partition. ",
            element("span", class_="swatch"),
            " hatched: can be freed now. \u25b2: number of findings. The tables below have the numbers.",
        ),
    )
    none = dict.fromkeys(each.key for each in columns.TOPICS.columns)
    feet = [
        {**none, **beside},
        {
            **none,
            "topic": "All",
            **{name: whole[name] for name in _ADDED_UP},
        },
    ]
    kinds = {
        name: sum(row[name] for row in numbers["disk"])
        for name in ("files", "bytes", "allocatedBytes", "bytesFreeable")
    }
    kinds_foot = [{**dict.fromkeys(each.key for each in columns.DISK.columns), "kind": "All", **kinds}]
    return join(
        [
            drawing,
            table(columns.TOPICS, [*topics, *others], "topics", feet=feet),
            table(columns.SHARES, numbers["partitions"], "partitions", _largest(numbers)),
            table(columns.DISK, numbers["disk"], "disk", feet=kinds_foot),
        ]
    )


def _retention(numbers: Row) -> Html:
    retention, now = numbers["retention"], numbers["now"]
    by_day = {row["day"]: row for row in retention["days"]}
    today = now // _DAY * _DAY
    days = [today + n * _DAY for n in range(max(28, (max(by_day, default=today) - today) // _DAY + 1))]
    values = [by_day.get(day, {"bytes": 0})["bytes"] for day in days]
    waiting = sum(values)
    lead = (
        f"Now {_reprs.size(retention['nowBytes'])} can be freed, {_reprs.size(waiting)} within "
        f"{len(days)} days, {_reprs.size(retention['laterBytes'])} later; "
        f"{_reprs.size(sum(row['bytes'] for row in retention['held']))} are kept as things are."
    )
    parts = [element("p", lead)]
    if waiting:
        titles = [f"{shown(day, Kind.DAY)}: {_reprs.size(value)}" for day, value in zip(days, values, strict=True)]
        label = f"Bytes freed by day from {shown(days[0], Kind.DAY)} to {shown(days[-1], Kind.DAY)}: {lead}"
        axis = element(
            "p",
            *(element("span", shown(day, Kind.DAY)) for day in (days[0], days[len(days) // 2], days[-1])),
            class_="axis",
        )
        caption = element(
            "figcaption", f"Freed by day, in bytes of .log files; the highest bar is {_reprs.size(max(values))}."
        )
        parts.append(element("figure", caption, svg.bars(values, titles, label, height=110), axis))
    pair = [
        element("div", table(what, retention[name], f"retention.{name}"))
        for what, name in ((columns.DAYS, "days"), (columns.HELD, "held"))
        if retention[name]
    ]
    parts.append(element("div", *pair, class_="pair"))
    if retention["advice"]:
        parts.append(element("h3", "What keeps bytes, and what to do"))
        parts.append(element("ul", *(element("li", line) for line in retention["advice"]), class_="lines"))
    return join(parts)


def _partitions(numbers: Row) -> Html:
    rows = numbers["partitions"]
    if not rows:
        return element("p", "No live partition here.")
    return table(columns.PARTITIONS, rows, "partitions", _largest(numbers))


def _largest(numbers: Row) -> str:
    rows, count = len(numbers["partitions"]), numbers["summary"]["partitions"]
    return f"The largest {rows} of {count:,}" if count > rows else ""


def _transactions(numbers: Row) -> Html:
    if not numbers["transactions"]:
        return element("p", "No transaction is open in any partition that was read.")
    about = (
        "An open transaction holds back the last stable offset of its partition, and with it read_committed "
        "consumers and compaction. kafka-transactions abort ends one that hangs."
    )
    return join([element("p", about), table(columns.TRANSACTIONS, numbers["transactions"], "transactions")])


def _groups(numbers: Row) -> Html:
    if not numbers["groups"]:
        return element("p", "No consumer group is known here: groups are in __consumer_offsets.")
    return join(
        [
            table(columns.GROUPS, numbers["groups"], "groups"),
            table(columns.OFFSETS, numbers["offsets"], "offsets"),
        ]
    )


def _schemas(numbers: Row) -> Html:
    return table(columns.SCHEMAS, numbers["schemas"], "schemas")


def _about(numbers: Row) -> Html:
    rest = "headers and indexes, and for compression ratios from a few batches of each topic and codec."
    findings = numbers["findings"]
    verified = findings["verified"] and not findings["headersOnly"]
    same = (
        "kafkalog report PATH -o FILE.html --json FILE.json writes the same numbers as JSON. They are those of "
        f"verify{' --headers-only' if findings['headersOnly'] else ''}, "
        "stats, explain, offsets, groups and transactions with -J."
    )
    notes = [
        f"verify read every byte; everything else comes from {rest}" if verified else f"Everything comes from {rest}",
        same,
        *([_REDACTED] if numbers["redacted"] else []),
        *numbers["notes"],
    ]
    return join(
        [
            table(columns.DIRS, numbers["dirs"], "dirs"),
            element("ul", *(element("li", note) for note in notes), class_="lines"),
        ]
    )
