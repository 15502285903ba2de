"""Files of an export in a store: each is made on this machine, and uploaded when it is complete."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kafkalog import _core, _places, storage
from kafkalog.storage._clients import AZURE, GCS, S3
from kafkalog.storage._failures import patiently
from kafkalog.storage._urls import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog.storage import Storage
    from kafkalog.storage._clients import ObjectTuple

_META = "meta.properties"
_ERRNOS = {"missing": errno.ENOENT, "denied": errno.EACCES}


class StoreTarget:
    """An object to be written, or the prefix of several.

    No store shows a part of an upload under its key: what is uploaded is there whole or not at all.
    """

    def __init__(self, place: Storage) -> None:
        self._place = place

    def __str__(self) -> str:
        return self._place.url

    def __truediv__(self, name: str) -> StoreTarget:
        return StoreTarget(self._place.below(name))

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self._place.key.rpartition("/")[2]

    def exists(self) -> bool:
        """Report whether there is an object of that key."""
        return self._stat(self._place.key) is not None

    @property
    def place(self) -> Storage:
        """The place in its store."""
        return self._place

    def size(self) -> int:
        """Return the length of the object, 0 if there is none."""
        found = self._stat(self._place.key)
        return 0 if found is None else found[1]

    def has_objects(self) -> bool:
        """Report whether there is anything below it."""
        try:
            objects, folders, _ = patiently(lambda: self._place.list(f"{self._place.key}/", recursive=False))
        except OSError as error:
            self._fail(error)
        return bool(objects or folders)

    def is_dir(self) -> bool:
        """Report whether it is a folder: nothing is one before it holds an object."""
        return False

    def beside(self) -> Path:
        """Return a new temporary file on this machine."""
        number, path = tempfile.mkstemp(prefix="kafkalog-export-")
        os.close(number)
        return Path(path)

    def upload(self, file: Path) -> None:
        """Make the content of a file the object's, in place of one that has its key."""
        try:
            patiently(lambda: self._place.put(file))
        except OSError as error:
            self._fail(error)

    def check(self, sources: Iterable[str]) -> None:
        """Refuse a place among logs: a log dir, or one below the log dirs that are read."""
        url, key = self._place.url, self._place.key
        for source in map(_log_dir_of, filter(is_url, sources)):
            if f"{_same_spelling(url)}/".startswith(f"{_same_spelling(source)}/"):
                raise ValueError(
                    f"{url}: the output would lie in the source's folder {source}; choose a place outside of it"
                )
        above = key
        while above:
            above = above.rpartition("/")[0]
            if self._stat(f"{above}/{_META}" if above else _META) is not None:
                log_dir = f"{self._place.root}/{above}"
                raise ValueError(f"{url}: the output would lie in the log dir {log_dir}; choose a place outside of it")

    def _stat(self, key: str) -> ObjectTuple | None:
        try:
            return patiently(lambda: self._place.stat(key))
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        number = _ERRNOS.get(getattr(error, "kind", "other"), errno.EIO)
        raise OSError(number, str(error), self._place.url) from None


def target_of(out: str) -> Path | StoreTarget:
    """Return where an export goes."""
    return StoreTarget(storage.open_storage(out)) if is_url(out) else Path(out)


def _same_spelling(url: str) -> str:
    """Return a URL with the first of the schemes of its store, and without the account and number of its mount."""
    scheme, _, rest = url.partition("://")
    bucket, slash, key = rest.partition("/")
    kinds = [min(kind) for kind in (S3, GCS, AZURE) if scheme in kind]
    return f"{kinds[0] if kinds else scheme}://{re.split('[@#]', bucket)[0]}{slash}{key}"


def _log_dir_of(source: str) -> str:
    path = _places.at(source)
    folder = _places.above(path) if _places.is_file(path) else path
    if re.fullmatch(r".+-\d+", folder.rpartition("/")[2]) is None:
        return folder
    try:
        _core.LogDir(folder)
    except ValueError:
        return _places.above(folder)
    return folder
