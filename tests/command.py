"""The command line as a user runs it: each call is a process of its own.

Starting Python and importing pyarrow takes longer than most commands, so the processes are forked from one that has
imported both. `tests/python/test_import_time.py` and the guides' examples start real ones.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

SECONDS = 120


def call_bytes(*words: str | bytes | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run ``kafkalog`` with these words; with options, those of `subprocess.run`, from the start."""
    if options or not hasattr(os, "fork"):
        command: list[Any] = [sys.executable, "-m", "kafkalog", *words]
        return subprocess.run(command, capture_output=True, check=False, timeout=SECONDS, **options)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _forks().run([os.fsdecode(word) for word in words], out, err)
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read())
    return subprocess.CompletedProcess(words, code, *written)


def call(*words: str | bytes | Path, errors: str = "strict", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``kafkalog`` as `call_bytes` does, and decode what it writes."""
    done = call_bytes(*words, **options)
    out, err = (part.decode(errors=errors) for part in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(words, done.returncode, out, err)


def fails(code: int, *words: str | bytes | Path, **options: Any) -> str:
    """Run what ends with this exit code; give the one line it says."""
    done = call(*words, **options)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stderr.startswith("kafkalog: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


class _Forks:
    """A process that forks one for each call."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())]
            # In a group of its own: a signal to the tests' group is none to it.
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._ours.settimeout(SECONDS)

    def run(self, words: list[str], out: IO[bytes], err: IO[bytes]) -> int:
        """Return the exit code of ``kafkalog`` with these words."""
        request = json.dumps((words, str(Path.cwd()), dict(os.environ))).encode()
        socket.send_fds(self._ours, [struct.pack("<i", len(request))], [out.fileno(), err.fileno()])
        try:
            self._ours.sendall(request)
            (status,) = struct.unpack("<i", self._ours.recv(4, socket.MSG_WAITALL))
        except BaseException:
            # The next call starts another one.
            _forks.cache_clear()
            os.killpg(self._process.pid, 9)
            self._process.wait()
            raise
        return os.waitstatus_to_exitcode(status)


@cache
def _forks() -> _Forks:
    return _Forks()


def _serve(server: socket.socket) -> None:
    """Fork a process for each request until the tests end."""
    import pyarrow  # noqa: F401, ICN001 - what commands import

    import kafkalog.cli.main

    while True:
        head, fds, _, _ = socket.recv_fds(server, 4, 2)
        if not head:
            return
        (size,) = struct.unpack("<i", head)
        words, folder, environment = json.loads(server.recv(size, socket.MSG_WAITALL))
        child = os.fork()
        if child == 0:
            server.close()
            for number, fd in enumerate(fds, 1):
                os.dup2(fd, number)
                os.close(fd)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            code = kafkalog.cli.main.main(words)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        for fd in fds:
            os.close(fd)
        server.sendall(struct.pack("<i", os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
