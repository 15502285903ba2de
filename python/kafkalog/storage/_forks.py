"""Clients in forked processes, where those of the parent must not be used.

Their threads are gone, and their connections are the parent's: answers to one would get to the other.
"""

from __future__ import annotations

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
