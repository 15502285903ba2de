"""Opening of a tier: its objects, its layout, and the log dirs beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kafkalog import _arguments, _core, storage
from kafkalog.tiers.aiven_layout import AivenLayout
from kafkalog.tiers.layout import RemoteLayout
from kafkalog.tiers.local_layout import LocalLayout
from kafkalog.tiers.local_logs import LocalLogs
from kafkalog.tiers.metadata_log import replay
from kafkalog.tiers.objects import FolderStore, StorePart
from kafkalog.tiers.tier import Tier

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.tiers.metadata_log import RemoteMetadata
    from kafkalog.tiers.objects import ObjectInfo, ObjectStore
    from kafkalog.typing import Paths, StrPath

__all__ = ["LayoutChoice", "ListedTier", "key_files", "list_tier", "open_tier"]

LayoutChoice: TypeAlias = Literal["auto", "local", "aiven"] | RemoteLayout
"""A layout by name, or one of your own."""


def key_files(keyring: Mapping[str, StrPath] | None) -> dict[str, str]:
    """Return the files of private keys, as paths from the root."""
    if keyring is not None and not isinstance(keyring, Mapping):
        raise TypeError(f"keyring must be a dict from ids of key pairs to files of private keys, not {keyring!r}")
    return {name: _arguments.local(file) for name, file in (keyring or {}).items()}


def open_tier(
    path: Paths | None,
    remote: StrPath,
    layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    wanted: Callable[[str, int], bool] = lambda topic, partition: True,  # noqa: ARG005
) -> Tier:
    """Open a tier, and the log dirs beside it."""
    listed = list_tier(remote, layout, keyring)
    log_dirs = [] if path is None else _arguments.paths(path)
    return listed.tier(replay(log_dirs or None), LocalLogs(log_dirs), wanted)


class ListedTier(NamedTuple):
    """A tier that was listed.

    Attributes
    ----------
    store : ObjectStore
        What reads its objects.
    layout : RemoteLayout
        How they are named and stored.
    objects : list of ObjectInfo
        All of them.
    name : str
        What messages call it.
    """

    store: ObjectStore
    layout: RemoteLayout
    objects: list[ObjectInfo]
    name: str

    def tier(self, metadata: RemoteMetadata, local: LocalLogs, wanted: Callable[[str, int], bool]) -> Tier:
        """Return its segments as metadata and logs have them."""
        return Tier(
            self.store,
            self.layout,
            objects=self.objects,
            metadata=metadata,
            local=local,
            wanted=wanted,
            name=self.name,
        )


def list_tier(
    remote: StrPath, layout: LayoutChoice = "auto", keyring: Mapping[str, StrPath] | None = None
) -> ListedTier:
    """List a tier, once."""
    store, prefix = _store(remote)
    objects, _, _ = store.list("", recursive=True)
    if prefix:
        objects = [each for each in objects if each.key.startswith(prefix)]
    name = os.fspath(remote)
    return ListedTier(store, _layout(layout, key_files(keyring), objects, name), objects, name.rstrip("/"))


def _store(remote: StrPath) -> tuple[ObjectStore, str]:
    """Return what reads a tier, and what all its keys begin with: a prefix need not end with a slash."""
    text = _arguments.path(remote)
    if _core.is_mounted(text):
        store = StorePart(storage.open_storage(text))
        if store.list("", recursive=False)[:2] != ([], []):
            return store, ""
        above, _, name = text.rpartition("/")
        return StorePart(storage.open_storage(above)), name
    at = Path(text)
    if at.is_dir():
        return FolderStore(text), ""
    if at.parent.is_dir() and any(each.name.startswith(at.name) for each in at.parent.iterdir()):
        return FolderStore(str(at.parent)), at.name
    raise FileNotFoundError(2, os.strerror(2), text)


def _layout(given: LayoutChoice, keyring: Mapping[str, str], objects: list[ObjectInfo], remote: str) -> RemoteLayout:
    if isinstance(given, RemoteLayout):
        return given
    name = _arguments.choose("remote_layout", given, ("auto", "local", "aiven"))
    known: dict[str, RemoteLayout] = {"local": LocalLayout(), "aiven": AivenLayout(keyring)}
    fits = [each for each, one in known.items() if any(one.parse(found.key) is not None for found in objects)]
    if name != "auto" and (name in fits or not fits):
        return known[name]
    if name != "auto":
        raise ValueError(
            f"{remote}: no object is named as remote_layout {name!r} names them; as {fits[0]!r} does, some are"
        )
    if fits:
        return known[fits[0]]
    if objects:
        few = ", ".join(sorted(each.key for each in objects)[:3])
        raise ValueError(
            f"{remote}: objects are not named as by Kafka's LocalTieredStorage or Aiven's plugin; the first are {few}. "
            "Give the folder or prefix that the keys of the plugin begin with, or remote_layout"
        )
    return known["local"]
