"""The Maven projects of the tests. Test processes share what they build, and build it one at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class MissingToolError(RuntimeError):
    """Java or Maven is missing, or Maven could not get the jars."""


# Flags of a JVM that ends soon: optimising what it runs takes longer than running it.
SHORT_LIVED_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@contextmanager
def alone() -> Iterator[None]:
    """Keep out other processes with the same name until the end of the block."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def class_path(project: Path) -> str:
    """Compile a project, if anything has changed, and return the class path of its dependencies."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            msg = f"{tool} is not installed: it is needed to ask Kafka's own classes"
            raise MissingToolError(msg)
    with alone():
        done = subprocess.run(
            ["mvn", "-q", "-B", "compile"],
            cwd=project,
            env={**os.environ, "MAVEN_OPTS": " ".join(SHORT_LIVED_JVM)},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if done.returncode != 0:
            msg = f"Maven could not build {project.name}:\n{done.stdout[-3000:]}"
            raise MissingToolError(msg)
        return (project / "target" / "classpath").read_text(encoding="utf-8").strip()
