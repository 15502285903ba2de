"""Steps of tests/run.py: what they need, two side by side, and a summary."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FailedError(RuntimeError):
    """A step failed, for the reason in the message."""


class Step:
    """A function, and the steps that must have passed before it starts."""

    def __init__(self, do: Callable[[], None], *needs: Callable[[], None]) -> None:
        self.do = do
        self.name = do.__name__
        self.needs = {each.__name__ for each in needs}


AT_A_TIME = 2


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step."""

    name: str
    seconds: float
    failure: str | None
    #: Of it and of every process that it waited for; 0 where the system does not count them.
    processor_seconds: float = 0


def alone(step: Step) -> int:
    """Run one step in this process and pass its output through."""
    print(f"=== {step.name}", flush=True)
    try:
        step.do()
    except (FailedError, OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"FAILED: {step.name}: {error}", flush=True)
        return 1
    return 0


def apart(step: Step, outputs: Path) -> Outcome:
    """Run one step as a process of its own, by the program that runs now, with its output in a file."""
    begun = time.monotonic()
    with (outputs / step.name).open("wb") as output:
        command = [sys.executable, sys.argv[0], step.name]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        used = 0.0
        if hasattr(os, "wait4"):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            used = usage.ru_utime + usage.ru_stime
        ended = process.wait()
    return Outcome(step.name, time.monotonic() - begun, f"exit {ended}" if ended else None, used)


def side_by_side(steps: Sequence[Step], outputs: Path) -> list[Outcome]:
    """Run steps, each after those that it needs; print the output of each, a file in ``outputs``, when it ends."""
    outputs.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    waiting, running = list(steps), set[Future[Outcome]]()
    names = {step.name for step in steps}
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        while waiting or running:
            ready = next((step for step in waiting if step.needs & names <= outcomes.keys()), None)
            if ready is not None and len(running) < AT_A_TIME:
                waiting.remove(ready)
                failed = sorted(name for name in ready.needs & names if outcomes[name].failure)
                if failed:
                    outcomes[ready.name] = Outcome(ready.name, 0, f"not run: {', '.join(failed)} failed")
                    continue
                print(f"... {ready.name}", flush=True)
                running.add(pool.submit(apart, ready, outputs))
                continue
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for outcome in (each.result() for each in ended):
                outcomes[outcome.name] = outcome
                print("\n" + (outputs / outcome.name).read_text(encoding="utf-8", errors="replace"), flush=True)
    return list(outcomes.values())


def busy_seconds() -> float:
    """Return for how long all cores together were busy since this machine started; 0 where that is not counted."""
    if not Path("/proc/stat").exists():
        return 0
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def together(steps: Sequence[Step], outputs: Path) -> int:
    """Run steps, print the summary, and return the exit code."""
    begun, busy = time.monotonic(), busy_seconds()
    outcomes = side_by_side(steps, outputs)
    print("=== summary")
    whole = sum(outcome.seconds for outcome in outcomes) or 1
    for outcome in sorted(outcomes, key=lambda each: -each.seconds):
        share = f"{100 * outcome.seconds / whole:3.0f} %"
        used = f"{outcome.processor_seconds:6.0f} s on processors"
        ended = "FAILED" if outcome.failure else "passed"
        print(f"{ended}  {outcome.seconds:6.0f} s  {share}  {used}  {outcome.name}", end="")
        print(f": {outcome.failure}" if outcome.failure else "")
    failed = sum(outcome.failure is not None for outcome in outcomes)
    seconds = time.monotonic() - begun
    busy = (busy_seconds() - busy) / (seconds * (os.cpu_count() or 1))
    print(f"{seconds:.0f} s, {AT_A_TIME} steps at a time", f"cores {100 * busy:.0f} % busy" if busy else "", sep="  ")
    print(f"steps: {len(outcomes) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0
