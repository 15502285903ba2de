"""Object stores on loopback, of the shared oracle: S3 (s3proxy), Azure (Azurite), GCS, and a proxy that injects faults.

The first use of each fetches its server, by Maven, npm or pip, into ``target/objects``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from clone import ROOT, TARGET
from interop.broker import held_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORACLE = ROOT.parent / "shared" / "oracle" / "objects"
_HOME = TARGET / "objects"
_TOOLS = {"s3": ("java", "mvn"), "azure": ("node", "npm"), "gcs": ()}
# What is there once a server was fetched.
_FETCHED = {
    "s3": "classpath",
    "azure": "npm/node_modules/.bin/azurite-blob",
    "gcs": "venv/has-gcp-storage-emulator2026.7.19",
}


@dataclass(frozen=True)
class ObjectServer:
    """A store that holds a folder.

    ``said`` is what the oracle says of it: ``url``, ``storage_options`` by the names of object_store, and ``pyarrow``,
    the arguments of the class of its filesystem.
    """

    said: dict[str, Any]

    @property
    def url(self) -> str:
        """The bucket."""
        return str(self.said["url"])

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options by the names of object_store."""
        return dict(self.said["storage_options"])

    def plan(self, *rules: dict[str, Any], seed: int = 0) -> None:
        """Have the proxy break requests by these rules from now on, and count anew."""
        self._ask("plan", json.dumps({"seed": seed, "rules": rules}).encode())

    def counts(self) -> dict[str, Any]:
        """Return what the proxy counted: ``requests`` and ``bytes`` by kind, ``faults``, ``most_at_once``."""
        return self._ask("counts")

    def _ask(self, what: str, sent: bytes | None = None) -> dict[str, Any]:
        url = f"{self.said['endpoint']}/-/{what}"
        with urllib.request.urlopen(url, sent, timeout=10) as answer:  # noqa: S310 - the proxy's own address
            found: dict[str, Any] = json.loads(answer.read())
            return found


@contextmanager
def serving(store: str, folder: Path, *, proxied: bool = False) -> Iterator[ObjectServer]:
    """Serve a folder by a store, ``s3``, ``azure`` or ``gcs``; skip the test where there is no such server."""
    if not ORACLE.is_dir():
        pytest.skip("the shared oracle is not here")
    lacks = [tool for tool in _TOOLS[store] if shutil.which(tool) is None]
    if lacks:
        pytest.skip(f"{store} needs {', '.join(lacks)}")
    with held_ports(2) as (port, proxy):
        process, said = _start(store, folder, ["--port", str(port)] + (["--proxy", str(proxy)] if proxied else []))
        try:
            yield ObjectServer(said)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                # s3proxy waits for connections that a client keeps.
                os.kill(said["server_pid"], signal.SIGKILL)
                process.communicate(timeout=30)


def _start(store: str, folder: Path, words: list[str]) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    _HOME.mkdir(parents=True, exist_ok=True)
    # Servers are fetched once.
    with (_HOME / "lock").open("w") as lock, (_HOME / f"{store}{words[1]}.said").open("w+") as errors:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in ORACLE.iterdir():
            if file.is_file():
                shutil.copyfile(file, _HOME / file.name)
        command = [sys.executable, str(_HOME / "run"), store, str(folder), *words]
        (_HOME / "faults.py").chmod(0o755)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = process.stdout.readline() if process.stdout else ""
        if line:
            return process, json.loads(line)
        code = process.wait(30)
        errors.seek(0)
        text = errors.read()[-2000:]
    if not (_HOME / "target" / _FETCHED[store]).exists():
        pytest.skip(f"the server for {store} cannot be fetched: {' '.join(text.split())[-300:]}")
    raise AssertionError(f"no server for {store}, exit code {code}: {text}")
