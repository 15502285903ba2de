"""Arguments about a tier, for everything that reads: nothing of ``kafkalog.tiers`` is imported without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath


def located(
    path: Paths | None,
    *,
    remote: StrPath | None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    topics: str | Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> Any:
    """Return paths for reading, as ``storage.located`` does; with a tier those at which it and the logs are mounted.

    ``topics`` are the only ones that will be read, if that is known.
    """
    if remote is None:
        if path is None:
            raise ValueError("path is None: only a tier (remote) can be read without log dirs")
        if remote_layout != "auto" or keyring:
            raise ValueError("remote_layout and keyring describe a tier, which remote names")
        return storage.located(path, storage_options, filesystem)
    from kafkalog.tiers.mounting import mounted

    here = None if path is None else storage.located(path, storage_options, filesystem)
    there = storage.located(remote, storage_options, filesystem)
    names = None if topics is None else tuple(sorted([topics] if isinstance(topics, str) else topics))
    return mounted(here, there, remote_layout, keyring or {}, names)
