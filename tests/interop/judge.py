"""The shared oracle: it makes disks of dead clusters, and judges a rescue with a real broker and real clients."""

from __future__ import annotations

import fcntl
import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog.rescue.model import RescueReport

ORACLE = clusters.FOLDER.parents[1] / "oracle" / "cluster" / "run"
# Where the judge's broker listens if the cluster is not told otherwise.
CONTROLLER, LISTENER = "127.0.0.1:19591", "127.0.0.1:19592"
# What an oracle says that is not made for a version of Kafka; test_rescue_judged says how it can be.
_LACKS = (
    "Could not resolve dependencies",
    "Unknown topic config name: internal.segment.bytes",
    "Unsupported metadata version",
)
# For a small machine that does other things as well.
JUDGE_SECONDS, MAKE_SECONDS = 300, 400


@dataclass(frozen=True)
class Verdict:
    """Verdict of the judge.

    ``findings`` counts what is wrong, by kind; ``required`` records had to be served; ``said`` is all that it printed.
    """

    ok: bool
    findings: dict[str, int]
    required: int
    said: list[dict[str, Any]]

    def unexplained(self, report: RescueReport) -> list[dict[str, Any]]:
        """Return the findings that are the rescue's fault; of each kind the judge prints eight."""
        return [each for each in self.said if "finding" in each and not _is_explained(each, report)]


def _is_explained(finding: dict[str, Any], report: RescueReport) -> bool:
    """Return whether no rescue can avoid a finding, for one of two reasons.

    An offset beyond the end has to become the end, where the judge's first look wants it. Then the judge appends
    records of its own, and its second look wants the lesser of the old offset and the new end, which nobody committed.

    A ``segment.bytes`` with which the judge's broker does not start cannot be served as it was.
    """
    kind, detail = finding["finding"], finding["detail"]
    if kind in {"group_offset_old", "group_offset_invented"} and finding["step"] == "again":
        group, _, rest = detail.partition(": ")
        offset = int(rest.partition(",")[0])
        lowered = {
            (each.group, f"{each.topic}-{each.partition}", each.end_offset) for each in report.plan.group_offsets
        }
        return (group, finding["partition"], offset) in lowered
    if kind == "topic_config":
        topic, _, rest = detail.partition(": ")
        now, was = (json.loads(each) for each in rest.split(", was "))
        raised = {each.topic for each in report.plan.findings if each.code == "setting-raised"}
        return topic in raised and now == {**was, "segment.bytes": "1048576"}
    return False


@contextmanager
def alone() -> Iterator[None]:
    """Keep out other processes that use the oracle: it has ports of its own."""
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} does not exist")
    with Path("/tmp/judge.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(words: Sequence[object], seconds: int) -> subprocess.CompletedProcess[str]:
    command = [str(each) for each in (ORACLE, *words)]
    with alone():
        return subprocess.run(command, cwd=ORACLE.parent, capture_output=True, text=True, check=False, timeout=seconds)


def make(kind: str, into: Path, *options: object) -> Path:
    """Let a real cluster live and die; return the folder of the case."""
    done = _run(["make", kind, into, *options], MAKE_SECONDS)
    for lack in _LACKS:
        if lack in done.stderr:
            pytest.skip(f"the oracle cannot make it: {lack}")
    assert done.returncode == 0, done.stderr[-3000:]
    return into


def judged(case: Path, out: Path, work: Path, withheld: Sequence[int] = ()) -> Verdict:
    """Start a broker on a rescue of a case, and ask it."""
    words = ["judge", out, "--expected", case / "expected", "--work", work]
    if withheld:
        words += ["--withheld", ",".join(str(node) for node in withheld)]
    done = _run(words, JUDGE_SECONDS)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-3000:]
    assert "ok" in said[-1], said[-1]
    last = said[-1]
    return Verdict(last["ok"], last["findings"], last["required"], said)


def rescued(case: Path, out: Path, withheld: Sequence[int] = ()) -> RescueReport:
    """Rescue a case without the disks of some nodes, for the judge's broker."""
    disks = clusters.disks_of(case, withheld)
    return kafkalog.rescue(disks, out, controller=CONTROLLER, listener=LISTENER)
