"""Tiers in reads: a log dir and its tier, mounted as one, have a path that everything that reads takes."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import threading
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _arguments, _core, _places, storage
from kafkalog.tiers.opening import key_files, open_tier
from kafkalog.tiers.view import TieredView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.tiers.tier import Tier
    from kafkalog.typing import Paths, StrPath

__all__ = ["MountedTier", "TierPlace", "mounted", "open_mounted", "pickled", "planned"]

# Of the core's own limits: what is read is on this machine, or has been asked for with limits of its own.
_RETRIES, _TIMEOUT = 0, 600.0
_PARTITION = re.compile(r".+-\d+")
_LOCK = threading.Lock()
_MOUNTED: dict[str, _Arguments] = {}
# Of each root the plan that it was mounted for.
_PLANS: dict[str, str] = {}


class _Arguments(NamedTuple):
    """Arguments that open a tier, for one log dir of perhaps several."""

    log_dirs: tuple[str, ...]
    number: int
    remote: Any
    layout: LayoutChoice
    keyring: tuple[tuple[str, str], ...]
    topics: tuple[str, ...] | None


class MountedTier:
    """A log dir and its tier as a plan carries them: where it is read they are mounted anew, once for each plan.

    Parameters
    ----------
    arguments : sequence
        What opens the tier.
    plan : str
        A name of the plan. Another one may have seen other segments.
    """

    def __init__(self, arguments: Iterable[Any], plan: str) -> None:
        log_dirs, number, remote, layout, keyring, topics = arguments
        pairs = tuple((name, file) for name, file in keyring)
        names = None if topics is None else tuple(topics)
        self._arguments = _Arguments(tuple(log_dirs), number, remote, layout, pairs, names)
        self._plan = plan
        root = _root(self._arguments)
        if _PLANS.get(root) != plan:
            _PLANS[root] = plan
            _mount(list(log_dirs) or None, remote, layout, dict(pairs), names)

    def __reduce__(self) -> Any:
        return type(self), (tuple(self._arguments), self._plan)

    def to_json(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what another process mounts it by, in the form of :meth:`kafkalog.storage.Storage.to_json`."""
        return storage.TIERED, list(self._arguments), {"plan": self._plan}


def planned(roots: Iterable[str]) -> list[MountedTier]:
    """Return what a plan carries of the tiers that are mounted at these places, or above them."""
    plan = uuid.uuid4().hex
    found = list(dict.fromkeys(map(_mounted_at, roots)))
    for root in found:
        _PLANS[root] = plan
    return [MountedTier(_MOUNTED[root], plan) for root in found]


def _mounted_at(path: str) -> str:
    return max((root for root in _MOUNTED if path == root or path.startswith(root + "/")), key=len)


class TierPlace(os.PathLike[str]):
    """A path in a mounted tier that can be pickled: it is mounted again in the process that unpickles and uses it."""

    def __init__(self, arguments: _Arguments, below: str = "") -> None:
        self._arguments, self._below = arguments, below

    def __fspath__(self) -> str:
        given = self._arguments
        root = _root(given)
        if root not in _MOUNTED:
            log_dirs = list(given.log_dirs) or None
            _mount(log_dirs, given.remote, given.layout, dict(given.keyring), given.topics)
        return root + self._below

    def __reduce__(self) -> Any:
        return type(self), (self._arguments, self._below)


def mounted(
    path: Paths | None,
    remote: StrPath,
    layout: LayoutChoice,
    keyring: Mapping[str, StrPath],
    topics: tuple[str, ...] | None,
) -> list[str]:
    """Return where log dirs, or folders of partitions in them, are mounted with the tier's segments.

    Parameters
    ----------
    path : path, list of paths or None
        Log dirs, or folders of partitions in them; None reads the tier alone.
    remote : path
        The tier.
    layout : str or RemoteLayout
        How it is stored.
    keyring : dict of str to path
        Private keys.
    topics : tuple of str or None
        The only topics that will be read, if that is known.
    """
    keys = key_files(keyring)
    homes = [_home(each) for each in ([] if path is None else _arguments.paths(path))]
    log_dirs = list(dict.fromkeys(home for home, _ in homes))
    _, roots = _mount(log_dirs or None, _arguments.path(remote), layout, keys, topics)
    return roots if path is None else [roots[log_dirs.index(home)] + below for home, below in homes]


def open_mounted(
    path: Paths | None,
    remote: StrPath,
    layout: LayoutChoice,
    keyring: Mapping[str, StrPath],
    wanted: Callable[[str, int], bool] | None = None,
) -> tuple[Tier, list[str]]:
    """Open the tier of log dirs, all of it or the partitions that are wanted, and mount them with it."""
    keys = key_files(keyring)
    log_dirs = None if path is None else [_home(each)[0] for each in _arguments.paths(path)]
    return _mount(log_dirs, _arguments.path(remote), layout, keys, None, wanted=wanted)


def _home(path: str) -> tuple[str, str]:
    """Return the log dir of a path, and the partition's folder in it, if it is one."""
    above, _, name = path.rstrip("/").rpartition("/")
    if name.endswith(".log"):
        raise ValueError(f"{path}: a file; with a tier give the log dir, or the folder of a partition")
    if not _PARTITION.fullmatch(name) or not _places.is_folder(path):
        return path, ""
    try:
        _core.LogDir(path)
    except ValueError:
        return above, f"/{name}"
    return path, ""


def _mount(
    log_dirs: list[str] | None,
    remote: str,
    layout: LayoutChoice,
    keyring: Mapping[str, str],
    topics: tuple[str, ...] | None,
    *,
    wanted: Callable[[str, int], bool] | None = None,
) -> tuple[Tier, list[str]]:
    """Open a tier and mount each log dir with it; returns it, and where."""
    names = set(topics) if topics is not None else None
    tier = open_tier(log_dirs, remote, layout, keyring, wanted or (lambda topic, _: names is None or topic in names))
    roots = []
    for number, log_dir in enumerate(log_dirs or [None]):
        view = TieredView(tier, log_dir, is_first=number == 0)
        given = _Arguments(tuple(log_dirs or ()), number, remote, layout, tuple(sorted(keyring.items())), topics)
        root = _root(given)
        with _LOCK:
            _core.mount_storage(root, view, _RETRIES, _TIMEOUT)
            _MOUNTED[root] = given
        roots.append(root)
    return tier, roots


def _root(given: _Arguments) -> str:
    """Return where to mount: a path that says what it is, for messages. The same arguments have the same."""
    remote = str(given.remote).strip("/").replace("://", "/")
    named = f"{given.log_dirs[given.number].strip('/').replace('://', '/')}+{remote}" if given.log_dirs else remote
    try:
        # A text: a pickle depends on which equal texts are one object.
        told = repr(given).encode() if isinstance(given.layout, str) else pickle.dumps(given)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A layout that only this process has.
        told = f"{given[:3]}{given[4:]}{id(given.layout)}".encode()
    return f"{storage.TIERED}{named}#{hashlib.sha256(told).hexdigest()[:8]}"


def pickled(path: str) -> TierPlace:
    """Return what stands for a path in a mounted tier in a pickle."""
    root = _mounted_at(path)
    return TierPlace(_MOUNTED[root], path[len(root) :])
