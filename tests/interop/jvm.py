"""Our Java in one process: Kafka's tools and clients of brokers, where a JVM for each would take most of the time.

As a program, which stands for ``kafka-topics.sh`` and its like in scripts: ``jvm.py PORT CLASS [WORD]...``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class Jvm:
    """A JVM in which tools run, one at a time, and clients, each in a thread of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it, and wait until it listens. It ends when its standard input does."""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def run(self, main: str, *words: str) -> tuple[int, str, str]:
        """Run the ``main`` of a class; return its exit code and what it printed."""
        return _answer(self._port, main, words)

    def command(self, main: str) -> list[str]:
        """Return the start of a command line that does the same."""
        return [sys.executable, "-I", "-S", __file__, str(self._port), main]

    def client(self, bootstrap: str) -> socket.socket:
        """Connect to a new client of a broker."""
        connected = socket.create_connection(("127.0.0.1", self._port))
        connected.sendall(_line({"drive": bootstrap}))
        return connected

    def close(self) -> None:
        """End it."""
        with self._process:
            self._process.kill()


def _line(asked: dict[str, Any]) -> bytes:
    return json.dumps(asked).encode() + b"\n"


def _answer(port: int, main: str, words: Sequence[str]) -> tuple[int, str, str]:
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(_line({"main": main, "words": list(words)}))
        with server.makefile("rb") as told:
            found = json.loads(told.read())
    return found["code"], found["out"], found["err"]


def _is_utf8() -> bool:
    """Tell whether a JVM that this process started would take any letter in an argument."""
    return "UTF-8" in (os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "")


if __name__ == "__main__":
    if not all(map(str.isascii, sys.argv)) and not _is_utf8():
        sys.exit("Java takes no such argument in this locale")
    code, out, err = _answer(int(sys.argv[1]), sys.argv[2], [os.fsencode(each).decode() for each in sys.argv[3:]])
    sys.stdout.buffer.write(out.encode())
    sys.stderr.buffer.write(err.encode())
    sys.exit(code)
