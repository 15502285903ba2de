"""URLs of stores: the bucket, where it is mounted, and the key below it."""

from __future__ import annotations

import re
from typing import NamedTuple

_URL = re.compile(r"\s*(?:(fsspec)::)?([A-Za-z][A-Za-z0-9+.-]+):(/{1,3})(.*)\Z", re.DOTALL)
_OF_BUCKETS = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "az", "abfs", "abfss"})
# Two letters at least, as for Spark: ``C:/`` is a local folder.


class Location(NamedTuple):
    """A place in a store."""

    scheme: str
    # Bucket, container (``container@account``) or host.
    authority: str
    key: str
    # fsspec was asked for by name.
    wants_fsspec: bool = False
    # A path of a filesystem from its root.
    is_rooted: bool = False

    @property
    def root(self) -> str:
        """Root at which the store is mounted."""
        return f"{self.scheme}://{self.authority}"

    def under(self, root: str) -> str:
        """Return the URL of the place in a store that is mounted at a root."""
        return f"{root}/{self.key}" if self.key else root


def is_url(text: str) -> bool:
    """Report whether a path is a URL of a store; ``file:`` is a local path."""
    found = _URL.match(text)
    return found is not None and found[2].lower() != "file"


def parse(text: str, filesystem: object | None = None) -> Location:
    """Take a URL apart; a path without a scheme is one of the filesystem that was given.

    User and password, a query and a fragment are refused: they would be secrets in paths.
    """
    found = _URL.match(text)
    if found is None:
        if filesystem is None:
            raise ValueError(f"{text!r} is no URL")
        head, _, key = text.strip("/").partition("/")
        return Location(_scheme_of(filesystem), head, key.strip("/"), is_rooted=text.startswith("/"))
    scheme, rest = found[2].lower(), found[4]
    authority, _, key = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if at and ":" in user:
        raise ValueError(
            f"{scheme}://***@{host} is a URL: with credentials, which get into plans and messages; use storage_options"
        )
    if "?" in rest:
        raise ValueError(
            f"{scheme}://{rest.partition('?')[0]} is a URL: with a query, which may be a signature; use storage_options"
        )
    if scheme == "file":
        authority, key = "", rest
    elif not authority and scheme in _OF_BUCKETS:
        raise ValueError(f"{text}: expected {scheme}://BUCKET/PATH, found no bucket")
    return Location(scheme, authority, key.strip("/"), found[1] is not None)


def _scheme_of(filesystem: object) -> str:
    name = getattr(filesystem, "type_name", None) or getattr(filesystem, "protocol", None) or type(filesystem).__name__
    name = name[0] if isinstance(name, (tuple, list)) else str(name)
    name = name.removeprefix("py::").removeprefix("fsspec+").removesuffix("Store").lower()
    return re.sub(r"[^a-z0-9+.-]", "-", name) if len(name) > 1 else "store"
