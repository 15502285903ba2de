"""Kafka's command line tools, run in one JVM: starting one for each call takes most of their time.

As a program, which stands for ``kafka-topics.sh`` and its like in scripts: ``tools.py PORT CLASS [WORD]...``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


class Tools:
    """A JVM in which Kafka's tools run, one at a time."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        """Wait until it listens."""
        assert running.stdout is not None
        self.port = int(running.stdout.readline())

    def run(self, main: str, *words: str) -> tuple[int, str, str]:
        """Run a tool; return its exit code and what it printed."""
        return answer(self.port, main, list(words))

    def command(self, main: str) -> list[str]:
        """Return the start of a command line that does the same."""
        return [sys.executable, "-I", "-S", __file__, str(self.port), main]


def answer(port: int, main: str, words: list[str]) -> tuple[int, str, str]:
    """Run a tool; return its exit code and what it printed."""
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(json.dumps({"main": main, "words": words}).encode() + b"\n")
        with server.makefile("rb") as told:
            found = json.loads(told.read())
    return found["code"], found["out"], found["err"]


def _is_utf8() -> bool:
    """Tell whether a JVM that this process started would take any letter in an argument."""
    return "UTF-8" in (os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "")


if __name__ == "__main__":
    if not all(map(str.isascii, sys.argv)) and not _is_utf8():
        sys.exit("Java takes no such argument in this locale")
    code, out, err = answer(int(sys.argv[1]), sys.argv[2], [os.fsencode(each).decode() for each in sys.argv[3:]])
    sys.stdout.buffer.write(out.encode())
    sys.stderr.buffer.write(err.encode())
    sys.exit(code)
