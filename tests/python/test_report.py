"""The report: every number is that of the other commands, names are text, and nothing outside the page is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import corpus
import kafkalog
from command import call, fails
from kafkalog.report import gather

GOLDEN = corpus.GOLDEN
CASES = {
    "clean": [GOLDEN / "clean-restarts" / "data-1"],
    "open": [GOLDEN / "txn" / "data-1"],
    "groups": [GOLDEN / "internal-compacted" / "data-0", GOLDEN / "internal-compacted" / "data-1"],
    "moving": [GOLDEN / "in-flight" / "data-0", GOLDEN / "in-flight" / "data-1"],
    "old": [GOLDEN / "v1-0.10.2.2" / "data-0"],
    "damaged": [GOLDEN / "corrupt" / "flipped-bit"],
    "partition": [GOLDEN / "clean-restarts" / "data-1" / "orders-0"],
}
DISK_SUMS = ("files", "bytes", "allocatedBytes", "bytesFreeable")
NOW = "2026-11-28T00:00:00Z"
_VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page as a browser sees it: tables with what they sort by, all text, all attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: list[tuple[str, list[str], list[list[str]]]] = []
        self.facts: dict[str, dict[str, str]] = {}
        self.tags: dict[str, int] = {}
        self._of = ""
        self._cell: list[str] | None = None
        self._raw: str | None = None
        self._part = ""
        self.feed(page)
        self.close()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert len(given) == len(attrs), (tag, attrs)
        self.attributes += [(tag, name, value) for name, value in given.items()]
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append((given["data-rows"], [], []))
        elif tag in {"thead", "tbody", "tfoot"}:
            self._part = tag
        elif tag == "th":
            self.tables[-1][1].append(given["data-key"])
        elif tag == "tr" and self._part == "tbody":
            self.tables[-1][2].append([])
        elif tag == "td" and self._part == "tbody":
            self._cell, self._raw = [], given.get("data-v")
        elif tag == "article":
            self._of = given["data-of"]
        elif tag == "dd" and "data-key" in given and self._of:
            self.facts.setdefault(self._of, {})[given["data-key"]] = given["data-v"]

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.open, tag
        assert self.open.pop() == tag
        if tag == "td" and self._cell is not None:
            self.tables[-1][2][-1].append("".join(self._cell) if self._raw is None else self._raw)
            self._cell = None
        elif tag == "article":
            self._of = ""

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)


def made(out: Path, *words: str | Path, code: int | None = None) -> tuple[dict[str, Any], str]:
    done = call("report", *words, "-o", out / "r.html", "--json", out / "r.json", "--overwrite")
    assert done.returncode in ({0, 1} if code is None else {code}), done.stderr
    return json.loads((out / "r.json").read_text()), (out / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Any, str]:
    paths = CASES[request.param]
    return paths, *made(tmp_path_factory.mktemp("report"), *paths, "--now", NOW)


def lines(*words: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in call(*words).stdout.splitlines()]


def at(numbers: Any, place: str) -> Any:
    for name in place.split("."):
        numbers = numbers[int(name)] if name.isdecimal() else numbers[name]
    return numbers


def by_partition(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["topic"], row["partition"]): row for row in rows}


@pytest.mark.sampled(2)
def test_numbers_are_those_of_stats_and_offsets(case: Any) -> None:
    paths, numbers, _ = case
    for path in paths:
        shown = by_partition([row for row in numbers["partitions"] if row["logDir"] == str(path)])
        stats = by_partition(lines("stats", path, "-J", "--on-corrupt", "skip"))
        assert shown.keys() == stats.keys()
        for place, row in stats.items():
            same = ("size", "batches", "records", "legacyBatches", "logStartOffset", "logEndOffset")
            for name in (*same, "minTimestamp", "maxTimestamp"):
                assert shown[place][name] == row[name], (place, name)
            assert shown[place]["segments"] == len(row["segments"])
        for row in lines("ls", path, "-J"):
            if row["state"] == "live":
                assert shown[row["topic"], row["partition"]]["highWatermark"] == row["highWatermark"]
        told = call("offsets", path, "--isolation-level", "read_committed").stdout.splitlines()
        stable = {f"{topic}:{partition}:{row['lastStableOffset']}" for (topic, partition), row in shown.items()}
        assert stable == set(told)


def test_batches_add_up_to_stats(case: Any) -> None:
    paths, numbers, _ = case
    stats = [row for path in paths for row in lines("stats", path, "-J", "--on-corrupt", "skip")]
    for detail in numbers["details"]:
        mine = [row for row in stats if row["topic"] == detail["topic"]]
        figures = detail["figures"]
        assert figures["batches"] == sum(row["batches"] for row in mine)
        assert figures["records"] == sum(row["records"] for row in mine)
        assert figures["bytes"] == sum(row["validBytes"] for row in mine)
        assert figures["batches"] == sum(each["batches"] for each in figures["sizes"])
        for codec in detail["codecs"]:
            for name in ("batches", "bytes"):
                there = sum(row["codecs"].get(codec["codec"], {}).get(name, 0) for row in mine)
                assert codec[name] == there, (detail["topic"], codec)
        line = figures["timeline"]
        if line is not None:
            beside = line["undatedBytes"] + line["beforeBytes"] + line["futureBytes"]
            assert sum(line["bytes"]) + beside == figures["bytes"]
    assert sum(each["figures"]["batches"] for each in numbers["details"]) == sum(row["batches"] for row in stats)


@pytest.mark.sampled(2)
def test_numbers_are_those_of_explain(case: Any) -> None:
    paths, numbers, _ = case
    rows = [row for path in paths for row in lines("explain", path, "-J", "--now", NOW)]
    retention = numbers["retention"]
    assert retention["nowBytes"] == sum(row["bytesFreeable"] for row in rows)
    waiting = [row for row in rows if row["retention"] == "waiting"]
    freed = sum(row["bytes"] for row in retention["days"]) + retention["laterBytes"]
    assert freed == sum(row["size"] for row in waiting)
    for day in retention["days"]:
        its = [row["size"] for row in waiting if row["retentionTime"] // 86_400_000 == day["day"] // 86_400_000]
        assert day["bytes"] == sum(its)
    kept = {row["heldBy"]: row["bytes"] for row in retention["held"]}
    for hold, size in kept.items():
        assert size == sum(row["size"] for row in rows if row["retention"] == "kept" and row["heldBy"] == hold)
    for topic in numbers["topics"]:
        mine = [row for row in rows if row["topic"] == topic["topic"]]
        assert topic["bytesFreeable"] == sum(row["bytesFreeable"] for row in mine)
        assert topic["dirtyBytes"] == sum(row["size"] for row in mine if row["compaction"] == "dirty")
        times = [row["retentionTime"] for row in mine if row["retention"] == "waiting"]
        assert (topic["nextTime"], topic["restBy"]) == ((min(times), max(times)) if times else (None, None))
    kinds: dict[str, dict[str, Any]] = {}
    for path in paths:
        for row in lines("explain", path, "--disk", "-J", "--now", NOW):
            kind = kinds.setdefault(row["kind"], {**row, **dict.fromkeys(DISK_SUMS, 0)})
            for name in DISK_SUMS:
                kind[name] += row[name]
    assert numbers["disk"] == list(kinds.values())


@pytest.mark.skipif(shutil.which("du") is None, reason="du is the witness")
def test_bytes_add_up_to_du(case: Any) -> None:
    paths, numbers, _ = case
    told = [int(subprocess.check_output(["du", "-sb", path]).split()[0]) for path in paths]
    assert numbers["summary"]["diskBytes"] == sum(told)
    assert sum(topic["diskBytes"] for topic in numbers["topics"]) + numbers["besideBytes"] == sum(told)
    assert [each["diskBytes"] for each in numbers["dirs"]] == told


@pytest.mark.sampled(3)
def test_findings_are_those_of_verify(case: Any) -> None:
    paths, numbers, _ = case
    *rows, last = lines("verify", *paths, "-J")
    findings = numbers["findings"]
    assert all(findings[f"{name}s"] == last["summary"][f"{name}s"] for name in ("error", "warning", "info"))
    order = ("error", "warning", "info")
    rows = [row for severity in order for row in rows if row.get("severity") == severity]
    assert findings["rows"] == rows
    assert {row["code"]: row["findings"] for row in findings["codes"]} == {
        row["code"]: sum(each["code"] == row["code"] for each in rows) for row in rows
    }
    assert findings["unread"] == []


def test_headers_only(tmp_path: Path) -> None:
    """A wrong byte of a value is found by a checksum; a wrong header, index or file by both."""
    logs = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs"))
    segment = logs / "orders-0" / f"{145:020}.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    (logs / "events-1" / f"{171:020}.index").unlink()
    findings: dict[str, Any] = {}
    for words in ((), ("--headers-only",)):
        *rows, last = lines("verify", logs, "-J", *words)
        numbers, page = made(tmp_path, logs, *(words or ("--verify",)))
        found = findings[" ".join(words)] = numbers["findings"]
        assert all(found[f"{name}s"] == last["summary"][f"{name}s"] for name in ("error", "warning", "info"))
        order = ("error", "warning", "info")
        assert found["rows"] == sorted(rows, key=lambda row: order.index(row["severity"]))
        assert {row["code"] for row in found["codes"]} == {row["code"] for row in rows}
        # The page and the numbers say what was read.
        assert (found["headersOnly"], "report --verify" in page) == (bool(words), bool(words))
        assert ("verify --headers-only" in page) == bool(words)
        assert ("verify read every byte" in page) != bool(words)
    # So few bytes are all read.
    assert made(tmp_path, logs)[0]["findings"] == findings[""]
    codes = {name: {row["code"] for row in found["codes"]} for name, found in findings.items()}
    assert codes[""] - codes["--headers-only"] == {"batch-crc"}
    assert "index-missing" in codes["--headers-only"]


def test_headers_only_above_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than 1 GiB of logs the default is what --headers-only does."""
    segment = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs")) / "orders-0" / f"{145:020}.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    logs = str(tmp_path / "logs")
    assert gather._SMALL == 1 << 30
    assert not gather.gather([logs]).findings.headers_only
    size = sum(each.size for each in gather.gather([logs], verified="none").partitions)
    monkeypatch.setattr(gather, "_SMALL", size)
    assert {row["code"] for row in gather.gather([logs]).findings.codes} >= {"batch-crc"}
    monkeypatch.setattr(gather, "_SMALL", size - 1)
    found = gather.gather([logs]).findings
    assert (found.verified, found.headers_only) == (True, True)
    told = kafkalog.verify(logs, headers_only=True)
    assert [(row["file"], row["code"]) for row in found.rows] == [
        (row["file"], row["code"]) for row in told.to_pylist()
    ]


def test_headers_only_reads_little(tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path / "logs", "t") as writer:
        for _ in range(8):
            writer.append([kafkalog.Record(b"x" * 500_000)])
    before = read_so_far()
    assert kafkalog.verify(tmp_path / "logs" / "t-0", headers_only=True).num_rows == 0
    assert read_so_far() - before < 400_000
    before = read_so_far()
    assert kafkalog.verify(tmp_path / "logs" / "t-0").num_rows == 0
    assert read_so_far() - before > 4_000_000


def read_so_far() -> int:
    """Give what this process has read by system calls, from memory, too."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


@pytest.mark.sampled(2)
def test_groups_and_transactions_are_those_of_their_commands(case: Any) -> None:
    paths, numbers, _ = case
    # Without __consumer_offsets the commands fail.
    offsets, states = lines("groups", *paths, "-J"), lines("groups", *paths, "--state", "-J")
    assert sorted(numbers["offsets"], key=str) == sorted(offsets, key=str)
    told = [{name: row[name] for name in states[0]} for row in numbers["groups"]]
    assert sorted(told, key=str) == sorted(states, key=str)
    for group in numbers["groups"]:
        mine = [row["lag"] for row in offsets if row["group"] == group["group"]]
        assert group["lag"] == sum(lag for lag in mine if lag is not None)
        assert group["unknown"] == mine.count(None)
    hanging = lines("transactions", *paths, "--hanging", "-J")
    assert [row for row in numbers["transactions"] if row["isHanging"] is not False] == sorted(
        hanging, key=lambda row: row["firstTimestamp"]
    )


def test_the_page_shows_what_the_json_holds(case: Any) -> None:
    _, numbers, page = case
    found = Page(page)
    assert not found.open
    assert found.tables
    for place, keys, rows in found.tables:
        there = at(numbers, place)
        there = [*there, numbers["otherTopics"]] if place == "topics" and numbers["otherTopics"] else there
        assert len(rows) == len(there), place
        for row, mine in zip(rows, there, strict=True):
            for key, cell in zip(keys, row, strict=True):
                value = mine[key]
                plain = int(value) if isinstance(value, bool) else value
                if key in {"severity", "file"} and place == "findings.rows":
                    assert cell.endswith(str(value)) or value.endswith(cell)
                elif value is None:
                    assert cell == "\u2013"
                else:
                    assert cell.replace(",", "") == str(plain).replace(",", ""), (place, key)
    for place, facts in found.facts.items():
        assert all(str(at(numbers, place)[key]) == value for key, value in facts.items())


def test_the_page_names_nothing_outside_of_it(case: Any) -> None:
    _, _, page = case
    found = Page(page)
    for tag, name, value in found.attributes:
        assert name not in {"src", "srcset", "style", "xlink:href", "action"}, (tag, name)
        assert not name.startswith("on"), (tag, name)
        assert name != "href" or value.startswith("#"), value
    assert not re.search(r"https?://|@import|url\((?!#)", page)
    assert found.tags["script"] == 1
    [policy] = [value for tag, name, value in found.attributes if tag == "meta" and value.startswith("default-src")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_names_are_text(tmp_path: Path) -> None:
    """A folder, a group or a topic may be called anything."""
    logs = tmp_path / "logs"
    with kafkalog.LogWriter(logs, "t") as writer:
        writer.append([kafkalog.Record(b"v")])
    odd = ["<script>alert(1)<script>", '"><img src=x onerror=alert(1)>', "a&b'c", "\u202eevil", "</style><b>"]
    for name in odd:
        if "/" not in name:
            shutil.copytree(logs / "t-0", logs / f"{name}-0")
    numbers, page = made(tmp_path, logs)
    found = Page(page)
    assert found.tags["script"] == 1
    assert "img" not in found.tags
    assert "b" not in found.tags
    assert not found.open
    topics = {row["topic"] for row in numbers["topics"]}
    topics |= {row["file"].split("/")[-1] for row in numbers["findings"]["rows"]}
    assert any("<script>" in each for each in topics)
    assert "<script>alert(1)<script>" in "".join(found.text)
    assert "\u202e" not in page


PEOPLE = ("group", "memberId", "clientId", "clientHost")
NAMES = {"topic": "customers.acme", "other": "acme_payments-eu", "group": "acme-billing", "foreign": "acme-notes.txt"}


def test_redacted(tmp_path: Path) -> None:
    logs = tmp_path / "acme-disk"
    for name in ("topic", "other"):
        with kafkalog.LogWriter(logs, NAMES[name]) as writer:
            writer.append([kafkalog.Record(b"v" * 100) for _ in range(10)])
    (logs / f"{NAMES['topic']}-0" / NAMES["foreign"]).write_text("x")
    (logs / "acme folder").mkdir()
    (logs / "acme folder" / "acme").write_text("x")
    log = logs / f"{NAMES['other']}-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-20] + b"x" * 40)
    os.truncate(logs / f"{NAMES['topic']}-0" / f"{0:020}.timeindex", 7)
    plain, _ = made(tmp_path, logs)
    assert len(plain["findings"]["rows"]) >= 4
    numbers, page = made(tmp_path, logs, "--redact")
    for text in (json.dumps(numbers), page):
        assert "acme" not in text
        assert str(tmp_path) not in text
    assert numbers["redacted"]
    # Only names differ, and the same name has the same hash everywhere.
    assert [row["code"] for row in numbers["findings"]["rows"]] == [row["code"] for row in plain["findings"]["rows"]]
    assert {**numbers["summary"]} == plain["summary"]
    topics = {row["topic"] for row in numbers["topics"]}
    assert len(topics) == 2
    assert {row["topic"] for row in numbers["partitions"]} == topics
    again, _ = made(tmp_path, logs, "--redact")
    assert again["topics"] == numbers["topics"]


def test_redacted_groups(tmp_path: Path) -> None:
    paths = CASES["groups"]
    plain, _ = made(tmp_path, *paths)
    numbers, page = made(tmp_path, *paths, "--redact")
    names = {row[key] for row in plain["offsets"] for key in PEOPLE if row[key]}
    names |= {row["transactionalId"] for row in plain["transactions"] if row["transactionalId"]}
    assert len(names) > 10
    shown = {text.strip() for text in Page(page).text}
    assert not names & shown
    for key in ("group", "topic", "memberId"):
        one = [row[key] for row in plain["offsets"]]
        other = [row[key] for row in numbers["offsets"]]
        assert len(set(one)) == len(set(other))


def test_one_damaged_partition_is_a_finding(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs"))
    for path in (logs / "orders-0").glob("*.log"):
        path.write_bytes(b"\xff" * 200)
    numbers, page = made(tmp_path, logs, code=1)
    assert numbers["findings"]["errors"] > 0
    assert {"events", "ledger"} <= {row["topic"] for row in numbers["partitions"]}
    assert "Damaged" in "".join(Page(page).text)


def test_a_segment_that_cannot_be_opened_is_a_finding(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs"))
    for path in (logs / "orders-0").glob("*.log"):
        path.unlink()
        path.symlink_to(path)
    numbers, _ = made(tmp_path, logs, code=1)
    assert {"events", "ledger"} <= {row["topic"] for row in numbers["partitions"]}
    assert numbers["findings"]["errors"] or numbers["findings"]["unread"]


def test_gaps_times_in_the_future_and_out_of_order(tmp_path: Path) -> None:
    base = 1_700_000_000_000
    with kafkalog.LogWriter(tmp_path / "logs", "t") as writer:
        for offset, time in ((0, 0), (1, 5000), (5, 3000), (9, 900_000_000)):
            record = kafkalog.Record(b"v", None, base + time, [], offset)
            writer.append([record], keep_offsets=True)
    numbers, _ = made(tmp_path, tmp_path / "logs", "--now", str(base + 10_000))
    figures = numbers["details"][0]["figures"]
    assert (figures["gaps"], figures["missingOffsets"]) == (2, 6)
    assert (figures["lateBatches"], figures["largestStepBackMs"]) == (1, 2000)
    assert figures["futureBatches"] == 1
    assert figures["timeline"]["futureBytes"] > 0
    assert figures["timeline"]["records"][0] == 1


def test_ratios_are_those_of_the_codecs(tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path / "logs", "t", config={"compression.type": "zstd"}) as writer:
        writer.append([kafkalog.Record(b"v" * 1000) for _ in range(100)])
    with kafkalog.LogWriter(tmp_path / "plain", "t", config={"compression.type": "uncompressed"}) as writer:
        writer.append([kafkalog.Record(b"v" * 1000) for _ in range(100)])
    numbers, _ = made(tmp_path, tmp_path / "logs")
    sizes = [kafkalog.PartitionLog(tmp_path / name / "t-0").size for name in ("plain", "logs")]
    [codec] = numbers["details"][0]["codecs"]
    assert codec["codec"] == "zstd"
    if codec["sampledBatches"] == codec["batches"]:
        assert codec["sampledBytes"] == sizes[1]
        assert abs(codec["uncompressedBytes"] - sizes[0]) < sizes[0] / 20


def test_outputs(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs"))
    out = tmp_path / "r.html"
    assert "where a broker looks for logs" in fails(2, "report", logs, "-o", logs / "r.html")
    assert "where a broker looks for logs" in fails(
        2, "report", logs, "-o", out, "--json", logs / "orders-0" / "r.json"
    )
    assert not out.exists()
    assert call("report", logs, "-o", out).returncode == 0
    assert "File exists (--overwrite replaces it)" in fails(3, "report", logs, "-o", out)
    assert call("report", logs, "-o", out, "--overwrite", "--no-verify").returncode == 0
    assert "Not verified" in out.read_text(encoding="utf-8")
    assert "No such file" in fails(3, "report", logs, "-o", tmp_path / "none" / "r.html")
    assert "two files" in fails(2, "report", logs, "-o", tmp_path / "a", "--json", tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "r.html"}


def test_nothing_is_written_to_the_source(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CASES["clean"][0], tmp_path / "logs"))
    before = {path: path.stat().st_mtime_ns for path in logs.rglob("*")}
    made(tmp_path, logs)
    assert {path: path.stat().st_mtime_ns for path in logs.rglob("*")} == before


def test_schemas_are_those_of_their_table(tmp_path: Path) -> None:
    found = sorted(GOLDEN.rglob("_schemas-0"))
    numbers, page = made(tmp_path, found[0].parent)
    rows = kafkalog.tables.schemas(found[0].parent).to_pylist()
    assert rows
    assert numbers["summary"]["schemas"] == len(rows)
    for row, mine in zip(rows, numbers["schemas"], strict=True):
        assert all(mine[name] == row[name] for name in mine if name != "logTimestamp")
    assert "schemas" in {place for place, _, _ in Page(page).tables}


@pytest.mark.full
@pytest.mark.release
def test_ten_thousand_partitions(tmp_path: Path) -> None:
    """In less than two minutes and 3 MB: the largest topics in full, the rest summed."""
    logs = tmp_path / "logs"
    sources = [CASES["clean"][0] / name for name in ("orders-0", "events-1", "ledger-0")]
    for number in range(10_000):
        topic, partition = divmod(number, 40)
        folder = logs / f"topic-{topic:04}-{partition}"
        folder.mkdir(parents=True)
        for file in sources[topic % 3].iterdir():
            if file.name != "partition.metadata":
                (folder / file.name).hardlink_to(file)
    begun = time.monotonic()
    numbers, page = made(tmp_path, logs)
    assert time.monotonic() - begun < 120
    assert len(page) < 3_000_000
    summary = numbers["summary"]
    assert (summary["topics"], summary["partitions"]) == (250, 10_000)
    assert sum(row["partitions"] for row in numbers["topics"]) + numbers["otherTopics"]["partitions"] == 10_000
    assert sum(each["figures"]["records"] for each in numbers["details"]) == summary["records"]
    assert len(numbers["details"]) == 21
