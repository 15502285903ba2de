"""A process that reads a store and is forked while its requests are on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

WAYS = ("read", "go on", "end")
# Parent and child go on at the same time.
_SCRIPT = """
import atexit, ctypes, json, os, signal, sys
import kafkalog
from kafkalog.storage import _clients
url, client, options, how = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
_clients._has_obstore = lambda: client == "obstore"
if client == "fsspec":
    url = "fsspec::" + url
reader = kafkalog.scan(url, storage_options=options, threads=1)
taken = next(reader).num_rows
child = os.fork()
if child == 0:
    signal.alarm(50)
    try:
        if how == "read":
            print("child", kafkalog.read_table(url, storage_options=options).num_rows, flush=True)
        elif how == "go on":
            print("child", taken + sum(batch.num_rows for batch in reader), flush=True)
    except OSError as error:
        print("child", error, flush=True)
    libc = ctypes.CDLL(None)
    if how != "end" and hasattr(libc, "on_exit"):
        # Such threads get the memory of the parent's threads, for which the end of pyarrow's libraries would wait.
        for _ in range(40):
            libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)
    atexit.register(print, "at exit")
    sys.exit(3)
taken += sum(batch.num_rows for batch in reader)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("parent", taken, "code", code)
"""


def run(url: str, client: str, options: dict[str, Any], how: str) -> tuple[list[str], str]:
    """Have parent and child read, and return the lines they wrote, and what stands on stderr."""
    # Python 3.12 and later warn of forks beside threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _SCRIPT, url, client, json.dumps(options), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout.splitlines(), done.stderr


def expected(how: str, records: int) -> list[str]:
    """Return the lines where both get all records."""
    return [*([] if how == "end" else [f"child {records}"]), "at exit", f"parent {records} code 3"]
