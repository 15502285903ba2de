"""``kafkalog report``: one HTML page about log dirs, to open first and to attach to a ticket."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog import _core, _places, _reprs
from kafkalog.cli import _common
from kafkalog.cli._progress import Shown

if TYPE_CHECKING:
    import argparse

EPILOG = """\
The page shows what was read, findings of verify, where the bytes are and what can be freed when, the topics with time
lines, batch sizes and codecs, offsets of partitions, open transactions, and groups with their lag. It is one file that
loads nothing and works offline, in light and dark, on paper and on a telephone. --json writes every number that it
shows.

Everything is from headers and indexes. Findings are those of verify, which reads every byte of up to 1 GiB of logs; of
more it reads the headers, as verify --headers-only does, since a terabyte would take an hour. --verify reads every byte
in any case, --headers-only never, and --no-verify leaves findings out. The page says which it was.

--redact replaces the names of topics, groups, clients, hosts and transactional ids, and paths, by short hashes.

The exit code is that of verify: 1 if the page has a warning or an error, or something could not be read.

examples:
  kafkalog report /data/kafka-logs -o report.html
  kafkalog report /disk1/kafka-logs /disk2/kafka-logs -o report.html --json report.json --redact"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    parser.add_argument("-o", "--out", metavar="FILE", type=_common.output, required=True, help="the HTML file")
    parser.add_argument("--json", metavar="FILE", type=_common.output, help="write the numbers as JSON, too")
    _common.add_now(parser, "the time that retention, and records in the future, refer to")
    parser.add_argument("--redact", action="store_true", help="replace names and paths by hashes, in both files")
    how = parser.add_mutually_exclusive_group()
    for option, value, help_ in (
        ("--verify", "all", "read every byte, as verify does; the default up to 1 GiB of logs"),
        ("--headers-only", "headers", "read headers and indexes, as verify --headers-only does; the default above"),
        ("--no-verify", "none", "read headers and indexes, and find no damage"),
    ):
        how.add_argument(option, dest="verify", action="store_const", const=value, default="default", help=help_)
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")


def run(arguments: argparse.Namespace) -> int:
    """Write the report, and say on stderr what was written."""
    out, numbers_out = Path(arguments.out), None if arguments.json is None else Path(arguments.json)
    targets = [target for target in (out, numbers_out) if target is not None]
    if len(targets) > 1 and targets[0].absolute() == targets[1].absolute():
        raise ValueError(f"{out}: expected two files, found the same one for --out and --json")
    for target in targets:
        _check(target, arguments.path, overwrite=arguments.overwrite)
    # pyarrow, and all that it needs.
    from kafkalog._atomic_files import replace
    from kafkalog.report.gather import gather
    from kafkalog.report.page import page
    from kafkalog.report.partitions import Progress
    from kafkalog.report.redact import redacted

    progress = Progress()
    with Shown(progress.line):
        overview = gather(arguments.path, arguments.now, verified=arguments.verify, progress=progress)
        numbers = _reprs.plain(overview)
    if arguments.redact:
        numbers = redacted(numbers)
    if numbers_out is not None:
        import json

        replace(numbers_out, json.dumps(numbers, indent=1) + "\n")
    replace(out, page(numbers))
    found = overview.findings
    counts = ", ".join(
        f"{_reprs.count(number, name)}" for number, name in ((found.errors, "error"), (found.warnings, "warning"))
    )
    said = counts if found.verified else "not verified"
    unread = f", {len(found.unread)} could not be read" if found.unread else ""
    print(f"kafkalog: {arguments.out}: {said}{unread}", file=sys.stderr)
    return _common.DAMAGED if found.errors or found.warnings or found.unread else 0


def _check(target: Path, sources: list[str], *, overwrite: bool) -> None:
    """Refuse an output among logs, one that exists, and one without a folder: before anything is read."""
    _core.check_output(str(target), _places.on_disk(sources))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, f"{os.strerror(errno.EEXIST)} (--overwrite replaces it)", str(target))
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.absolute().parent))
