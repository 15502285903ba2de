"""``kafkalog verify``: reports faults in the files of a log dir."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kafkalog import _core, _places
from kafkalog._arguments import MAX_THREADS
from kafkalog._loose import only
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._progress import Shown
from kafkalog.cli._selection import chosen, is_wanted, sources
from kafkalog.tools.verification import table_of, with_tier

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from kafkalog._places import Stamp

_SEVERITIES = ("info", "warning", "error")

EPILOG = """\
Prints one line for each finding: file, position, severity, what was expected and found, code, advice. On a terminal and
with -J the last line is a summary. The exit code is 0 if nothing is worse than info, else 1. Nothing is written, locked
or changed; a running broker's log dir may be verified. kafkalog help damage explains the codes and what to do.

--evidence adds the size and the SHA-256 of every file, and whether any file changed while they were verified.

examples:
  kafkalog verify /data/kafka-logs
  kafkalog verify /data/kafka-logs -t orders,events -J
  kafkalog verify /data/kafka-logs --evidence > evidence.txt"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "path",
        metavar="PATH",
        type=_common.place,
        nargs="+",
        help="a log dir, a partition's folder, or a file in one; a segment under any name, compressed, or - for "
        "standard input; a .tar of a log dir",
    )
    _tier.add_remote(parser)
    _common.add_loose_names(parser)
    parser.add_argument(
        "-s", "--severity", choices=_SEVERITIES, default="info", help="show only findings of at least this severity"
    )
    parser.add_argument(
        "--kafka-version", "--level", metavar="VERSION", help="the Kafka version that is to read the files"
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=_common.number(1, MAX_THREADS),
        help="number of threads; default: one per processor",
    )
    parser.add_argument(
        "--headers-only", action="store_true", help="read headers and indexes: no checksums, no records"
    )
    parser.add_argument("--evidence", action="store_true", help="add size and SHA-256 of every file")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per finding, and a summary")


def run(arguments: argparse.Namespace) -> int:
    """Verify, and print the findings."""
    begun = time.monotonic()
    paths, names = _selected(arguments)
    before = _files(paths) if arguments.evidence else {}
    progress = _core.VerifyProgress()
    with Shown(lambda: _line(progress)):
        names["headers_only"] = arguments.headers_only
        table = table_of(paths or None, arguments.kafka_version, arguments.threads, progress, **names)
    if arguments.remote is not None:
        headers_only, keyring = arguments.headers_only, dict(arguments.remote_key)
        table = with_tier(
            table,
            arguments.path or None,
            arguments.remote,
            arguments.remote_layout,
            keyring,
            headers_only=headers_only,
            announce=_announce,
            wanted=lambda topic, partition: is_wanted(arguments, topic, partition),
        )
    least = _SEVERITIES.index(arguments.severity)
    found: Counter[str] = Counter()
    for row in _printing.rows_of(table):
        found[row["severity"]] += 1
        if _SEVERITIES.index(row["severity"]) < least:
            continue
        if arguments.json:
            _printing.json_line(row)
        else:
            _printing.say(line_of(row))
    if arguments.evidence:
        _print_evidence(before, json=arguments.json)
    if arguments.json or sys.stdout.isatty():
        sizes = [stamp.size for stamp in _files(paths).values()]
        summary = {
            "partitions": progress.partitions,
            "files": len(sizes),
            "bytes": sum(sizes),
            **{f"{severity}s": found[severity] for severity in reversed(_SEVERITIES)},
            "seconds": round(time.monotonic() - begun, 3),
        }
        if arguments.json:
            _printing.json_line({"summary": summary})
        else:
            _printing.say(_summed_up(summary))
    return _common.DAMAGED if found["warning"] or found["error"] else 0


def _announce(text: str) -> None:
    print(f"kafkalog: reading {text}", file=sys.stderr, flush=True)


def _selected(arguments: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Return the folders of the partitions that are wanted; or the paths, and the names of segments outside of them."""
    topics, partitions = arguments.topic, arguments.partition
    log_dirs = [path for path in arguments.path if path != "-" and _places.is_folder(_places.at(path))]
    if not log_dirs or (topics is None and partitions is None):
        if not any(path == "-" or _places.exists(_places.at(path)) for path in arguments.path):
            return arguments.path, {}
        number = None if isinstance(partitions, Mapping) else only(partitions)
        return arguments.path, {"topic": only(topics), "partition": number}
    with sources(log_dirs) as found:
        folders = [folder.path for folder in chosen(found, topics, partitions).folders]
    return folders + [path for path in arguments.path if path not in log_dirs], {}


def line_of(row: dict[str, Any]) -> str:
    """Return the line about a finding."""
    place = row["file"]
    if row["position"] is not None:
        end = row["endPosition"]
        place += f": byte {row['position']}" + ("" if end is None else f" to {end}")
    return f"{place}: {row['severity']}: {row['message']} [{row['code']}]; {row['advice']}"


def _summed_up(summary: dict[str, Any]) -> str:
    """Return the line that sums up: ``1 partition, 9 files, 12,345 bytes: 0 errors, ...``."""

    def counted(name: str) -> str:
        count = summary[name]
        return f"{count:,} {name.removesuffix('s') if count == 1 else name}"

    looked_at = ", ".join(map(counted, ("partitions", "files", "bytes")))
    found = ", ".join(map(counted, ("errors", "warnings", "infos")))
    return f"{looked_at}: {found}; {summary['seconds']:.1f} seconds"


def _line(progress: _core.VerifyProgress) -> str:
    done, total = progress.done, progress.total
    return f"{100 * done // total:3d}% of {total / 1e9:.1f} GB verified" if total else ""


def _files(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return every file at or below the paths, each once."""
    return {file: stamp for path in paths if path != "-" for file, stamp in _places.files(_places.at(path)).items()}


def _print_evidence(before: dict[str, Stamp], *, json: bool) -> None:
    """Print the hash of every file, and whether it is as it was before the verification."""
    for folder in {_places.above(path) for path in before}:
        if _core.is_mounted(folder):
            _core.forget_listings(folder)
    changed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, stamp), digest in zip(before.items(), pool.map(_digest, before), strict=True):
            is_same = _places.stamp(path) == stamp
            changed += not is_same
            if json:
                fields = {"file": path, "size": stamp.size, "sha256": digest, "unchanged": is_same}
                _printing.json_line({"evidence": fields})
            else:
                _printing.say(
                    f"{path}: {stamp.size} bytes, SHA-256 {digest}" + ("" if is_same else ", changed meanwhile")
                )
    if json:
        _printing.json_line({"evidence": {"files": len(before), "changed": changed}})
    else:
        _printing.say(f"{len(before)} files; {changed or 'none'} changed while they were verified")


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a file; None if it was removed."""
    try:
        return _places.sha256(path)
    except FileNotFoundError:
        return None
