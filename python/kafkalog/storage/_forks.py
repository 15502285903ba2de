"""Clients in forked processes, where those of the parent must not be used.

Their threads are gone, and their connections are the parent's: answers to one would get to the other.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import pickle
from typing import TYPE_CHECKING, Any

from kafkalog.storage._failures import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.storage._clients import Client


class OwnClient:
    """A client of the process that asks for it: a forked child makes one of its own."""

    __slots__ = ("_client", "_make", "_process")

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client = make()
        self._process = os.getpid()

    def get(self) -> Client:
        """Return the client of this process."""
        if self._process != os.getpid():
            made = self._make()
            # Its end would end connections of the parent.
            _OF_PARENTS.append(self._client)
            self._client, self._process = made, os.getpid()
        return self._client


_OF_PARENTS: list[Client] = []
_AZURE_PROCESSES: set[int] = set()


def require_own_connections(filesystem: Any) -> None:
    """Raise if a filesystem of pyarrow shares its connections with a process that this one was forked from."""
    if filesystem.type_name != "abfs":
        return
    _AZURE_PROCESSES.add(os.getpid())
    if len(_AZURE_PROCESSES) > 1:
        raise StoreError(
            "other",
            "pyarrow shares connections to Azure with the process that this one was forked from, and would get its "
            "answers; pip install kafkalog[obstore], or start processes by spawn or forkserver",
        )


@functools.cache
def end_forks_without_libraries() -> None:
    """Make processes that are forked from now on skip the end of libraries, as children of ``multiprocessing`` do.

    The AWS and Azure SDKs of pyarrow join threads of the parent then, whose memory threads of the child may have by
    now: that hangs or crashes. Python's own end still runs. Only glibc has handlers that know the exit status.
    """
    if not hasattr(os, "register_at_fork"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit"):
        return
    import pyarrow.fs as pa_fs

    def prepare() -> None:
        atexit.unregister(pa_fs.ensure_s3_finalized)
        # The last one registered is the first to run.
        libc.on_exit(libc["_exit"], None)
        libc.on_exit(libc.fcloseall, None)

    os.register_at_fork(after_in_child=prepare)


def copied(filesystem: Any) -> Any:
    """Return a copy of a filesystem that was handed over, with connections of its own."""
    if type(filesystem).__module__.startswith("obstore"):
        raise StoreError(
            "other",
            "an obstore object works only in the process that made it, not in a fork; give a URL with storage_options, "
            "or start processes by spawn or forkserver",
        )
    try:
        return pickle.loads(pickle.dumps(filesystem))  # noqa: S301 - written here
    except Exception:  # noqa: BLE001 - not every object can be pickled
        return filesystem
