"""Logs in object stores: what a URL, ``storage_options`` and ``filesystem`` stand for.

A store is opened once for a bucket and mounted in the compiled core; from then on a path below it is read like a local
one. Everything that reads takes such paths, with credentials from the environment if none are given.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.storage._options import StorageOptions
from kafkalog.storage._urls import Location, is_url, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

    from kafkalog.storage._clients import Client, Listing, ObjectTuple
    from kafkalog.storage._forks import OwnClient
    from kafkalog.tiers.mounting import MountedTier
    from kafkalog.typing import Paths, StrPath

__all__ = ["Storage", "open_storage"]

# Options of the command line, for URLs without options of their own.
_DEFAULTS: ContextVar[Mapping[str, Any] | None] = ContextVar("storage_options", default=None)
# Whether what was listed is still taken for the present.
_KEEPS_LISTINGS: ContextVar[bool] = ContextVar("keeps_listings", default=False)
# Log dirs and their tiers, which kafkalog.tiers mounts.
TIERED = "tiered://"
_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):
    # Held by a thread that opens a store, it would stay so in a fork, as in concurrent.futures.
    os.register_at_fork(after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001
_MOUNTED: dict[str, Storage] = {}


class Storage:
    """A store that is mounted in this process, and a place in it.

    Obtained from :func:`open_storage`. ``str(storage)`` is its URL without secrets, which everything that reads takes
    for a path.

    Attributes
    ----------
    url : str
        Where the logs are, without credentials.
    """

    __slots__ = ("_clients", "_filesystem", "_location", "_options", "_root", "url")

    def __init__(
        self, root: str, location: Location, options: StorageOptions, clients: OwnClient, filesystem: object
    ) -> None:
        self._root, self._location = root, location
        self.url = location.under(root)
        self._options = options
        self._clients = clients
        self._filesystem = filesystem

    def at(self, location: Location) -> Storage:
        """Return another place in the store."""
        return Storage(self._root, location, self._options, self._clients, self._filesystem)

    def is_by(self, options: StorageOptions, filesystem: object | None) -> bool:
        """Report whether it was opened by these."""
        return self._options == options and self._filesystem is filesystem

    def is_like(self, location: Location) -> bool:
        """Report whether what opened it opens the store of a URL, too; a filesystem is perhaps that of one bucket."""
        if self._filesystem is not None:
            return self._location.root == location.root
        return self._location.scheme == location.scheme

    @property
    def opened_by(self) -> tuple[StorageOptions, object | None]:
        """The options and the filesystem that it was opened by."""
        return self._options, self._filesystem

    def __repr__(self) -> str:
        return f"<kafkalog.storage.Storage {self.url}, by {self._client.name}>"

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    def __reduce__(self) -> Any:
        return restored, (*self.to_json(), self._filesystem)

    def to_json(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what another process opens it by: its root, the place, and options without secrets."""
        if self._filesystem is None:
            self._options.require_no_secrets("a pickle")
        return self._root, list(self._location), self._options.given

    def below(self, name: str) -> Storage:
        """Return the place of a name below this one."""
        key = self._location.key
        return self.at(self._location._replace(key=f"{key}/{name}" if key else name))

    @property
    def root(self) -> str:
        """The URL at which the store is mounted."""
        return self._root

    @property
    def key(self) -> str:
        """The key of the place in its bucket."""
        return self.url[len(self._root) :].strip("/")

    @property
    def _client(self) -> Client:
        return self._clients.get()

    def list(self, prefix: str, recursive: bool = True) -> Listing:  # noqa: FBT001, FBT002 - called from Rust
        """List the objects whose keys begin with a prefix, which is empty or ends with a slash.

        Keys are relative to the bucket. Returns key, size, modification time in milliseconds and version (or None) of
        each object, the keys of folders that were not entered, and the number of requests.
        """
        return self._client.list(prefix, recursive)

    def stat(self, key: str) -> ObjectTuple | None:
        """Describe one object; None if there is none."""
        return self._client.stat(key)

    def read(  # noqa: PLR0917 - called from Rust
        self,
        key: str,
        start: int,
        length: int,
        size: int | None = None,
        version: str | None = None,
        check: bool = True,  # noqa: FBT001, FBT002
    ) -> Buffer:
        """Read a range of an object, which must be of this size and version if they are given.

        Without ``check`` a client that cannot pin each read need not compare them again.
        """
        from kafkalog.storage._clients import ObjectRange

        return self._client.read(ObjectRange(key, start, length, size, version, check))

    def put(self, file: Path) -> None:
        """Upload a file as the object of this place, replacing an existing one."""
        self._client.put(self.key, file)


def open_storage(
    url: StrPath, storage_options: Mapping[str, Any] | None = None, filesystem: object | None = None
) -> Storage:
    """Open the store that a URL is in, and mount it: everything that reads takes ``str(storage)`` as a path.

    Parameters
    ----------
    url : str
        ``s3:// s3a:// gs:// az:// abfs:// abfss://``, or any of fsspec's (``fsspec::proto://`` chooses fsspec); with
        ``filesystem`` also a path in it.
    storage_options : mapping, optional
        Options by the names of the object_store crate, as Polars and delta-rs take them: ``aws_access_key_id``,
        ``aws_endpoint_url``, ``azure_storage_account_name``. ``env:NAME`` is the value of an environment variable,
        looked up in the process that reads. For a scheme of fsspec, the arguments of its class.
    filesystem : object, optional
        A ``pyarrow.fs``, fsspec or obstore object to use instead.

    Returns
    -------
    Storage
        The place; the same store is opened once.
    """
    text = os.fspath(url)
    location = parse(text, filesystem)
    given = storage_options if storage_options is not None else _DEFAULTS.get()
    if _core.is_mounted(text) and given is None and filesystem is None:
        with _LOCK:
            known = _holding(text)
            if known is not None:
                return known.at(location._replace(key=text[len(known.root) :].strip("/")))
    options = StorageOptions({} if given is None else given)
    with _LOCK:
        return _mounted(location, options, filesystem)


def _holding(path: str) -> Storage | None:
    """Return the store that is mounted at or above a path."""
    roots = [root for root in _MOUNTED if path == root or path.startswith(root + "/")]
    return _MOUNTED[max(roots, key=len)] if roots else None


def beside(url: str, paths: Iterable[str]) -> str:
    """Return the path of a URL that belongs to mounted paths: its store is opened as theirs is."""
    location = parse(url)
    with _LOCK:
        for store in filter(None, map(_holding, paths)):
            if store.is_like(location):
                return _mounted(location, *store.opened_by).url
    return open_storage(url).url


def _mounted(location: Location, options: StorageOptions, filesystem: object | None) -> Storage:
    root, number = location.root, 1
    while (known := _MOUNTED.get(root)) is not None:
        if known.is_by(options, filesystem):
            return known.at(location)
        # Two accounts in one process: paths of the second one say so.
        number += 1
        root = f"{location.root}#{number}"
    return _mount(root, location, options, filesystem)


def _mount(root: str, location: Location, options: StorageOptions, filesystem: object | None) -> Storage:
    from kafkalog.storage._clients import client_for, client_of
    from kafkalog.storage._forks import OwnClient, copied

    process = os.getpid()

    def make() -> Client:
        if filesystem is None:
            return client_for(location, options)
        return client_of(filesystem if os.getpid() == process else copied(filesystem), location, options)

    storage = Storage(root, location, options, OwnClient(make), filesystem)
    _core.mount_storage(root, storage, options.retries, options.timeout)
    _MOUNTED[root] = storage
    return storage


def restored(
    root: str, location: Iterable[Any], options: Mapping[str, Any], filesystem: object | None = None
) -> Storage | MountedTier:
    """Open a store at the root that it had in another process, whose paths begin with it; or mount a tier there."""
    if root == TIERED:
        from kafkalog.tiers.mounting import MountedTier

        return MountedTier(location, options["plan"])
    place, given = Location(*location), StorageOptions(options)
    with _LOCK:
        known = _MOUNTED.get(root)
        if known is not None and known.is_by(given, filesystem):
            return known.at(place)
        return _mount(root, place, given, filesystem)


def located(path: Paths, storage_options: Mapping[str, Any] | None = None, filesystem: object | None = None) -> Any:
    """Return paths for reading, in which stores are mounted and whose listings are of now.

    Local paths stay as they are; what is no path at all is left for others to refuse.
    """
    if isinstance(path, (str, os.PathLike)):
        return _located(path, storage_options, filesystem)
    if isinstance(path, bytes) or not hasattr(path, "__iter__"):
        return path
    return [_located(each, storage_options, filesystem) for each in path]


def _located(path: StrPath, storage_options: Mapping[str, Any] | None, filesystem: object | None) -> StrPath:
    text = os.fspath(path)
    if not isinstance(text, str) or (filesystem is None and not is_url(text)) or text.startswith(TIERED):
        return path
    url = open_storage(text, storage_options, filesystem).url
    if not _KEEPS_LISTINGS.get():
        _core.forget_listings(url)
    return url


def pickled(path: str) -> Any:
    """Return what stands for a path in a pickle: a path in a store takes the store along, without its secrets."""
    if not _core.is_mounted(path):
        return path
    if path.startswith(TIERED):
        from kafkalog.tiers.mounting import pickled as of_tier

        return of_tier(path)
    return open_storage(path)


def place(text: str) -> str | None:
    """Return the URL of a path in a store, which is mounted now; None for a local path."""
    if not is_url(text):
        return None
    return text.rstrip("/") if text.startswith(TIERED) else open_storage(text).url


@contextmanager
def one_listing(paths: Iterable[str]) -> Iterator[None]:
    """List log dirs once for everything that is read of them, as long as the context lasts."""
    token = _KEEPS_LISTINGS.set(True)
    for path in paths:
        # Before a folder in it is; faults are left to the readers.
        with suppress(OSError):
            _core.path_kind(path)
    try:
        yield
    finally:
        _KEEPS_LISTINGS.reset(token)


@contextmanager
def defaults(options: Mapping[str, Any] | None) -> Iterator[None]:
    """Use these options for URLs that are given none, as long as the context lasts."""
    token = _DEFAULTS.set(options or None)
    try:
        yield
    finally:
        _DEFAULTS.reset(token)
