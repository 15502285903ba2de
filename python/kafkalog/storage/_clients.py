"""The clients: pyarrow, obstore and fsspec as one small protocol.

Each answers one request at a time, on whatever thread asks; retries, limits and windows are the core's. Where a client
can be told not to retry itself, it is.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections import OrderedDict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from kafkalog.storage._failures import StoreError, about_options, fail
from kafkalog.storage._forks import end_forks_without_libraries, require_own_connections
from kafkalog.storage._options import StorageOptions, seconds, truth
from kafkalog.storage._versions import (
    BY_TIME,
    header_millis,
    header_text,
    headers_of,
    require_same_size,
    require_same_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typing_extensions import Buffer

    from kafkalog.storage._urls import Location

# Key, size, modification time in milliseconds, version.
ObjectTuple = tuple[str, int, int, "str | None"]
# Objects, keys of folders that were not entered, number of requests.
Listing = tuple[list[ObjectTuple], list[str], int]

S3, GCS, AZURE = (
    frozenset({"s3", "s3a", "s3n"}),
    frozenset({"gs", "gcs"}),
    frozenset({"az", "azure", "abfs", "abfss", "adl"}),
)
# Keys in one answer to a listing.
_PAGE = 1000
# Objects of which files stay open: opening one costs a request.
_MAX_OPEN = 64
# Where obstore was used.
_OBSTORE_PROCESSES: set[int] = set()
# Bytes that few answers end with.
_UNTOUCHED = (b"\xa7", b"\x58")


class ObjectRange(NamedTuple):
    """A range of an object, as it was listed."""

    key: str
    start: int
    length: int
    size: int | None
    version: str | None
    # The first range that a reader asks for.
    is_first: bool


class Client(Protocol):
    """The requests to a store."""

    name: str

    def list(self, prefix: str, recursive: bool) -> Listing:  # noqa: FBT001
        """List the objects whose keys begin with a prefix."""

    def stat(self, key: str) -> ObjectTuple | None:
        """Describe one object."""

    def read(self, wanted: ObjectRange) -> Buffer:
        """Read a range, into memory that nobody changes any more."""

    def put(self, key: str, file: Path) -> None:
        """Upload a file, whole or not at all."""


def client_for(location: Location, options: StorageOptions) -> Client:
    """Make the client for a URL: obstore if it is installed, else pyarrow; fsspec for what these do not know.

    obstore's threads begin with its first store, and are not in a fork of that process.
    """
    scheme = location.scheme
    if not location.wants_fsspec and scheme in S3 | GCS | AZURE:
        made = _obstore if _has_obstore() and {os.getpid()} >= _OBSTORE_PROCESSES else _arrow
        return made(location, options)
    if scheme == "hdfs" and not location.wants_fsspec:
        import pyarrow.fs as pa_fs

        host, _, port = location.authority.partition(":")
        return ArrowClient(pa_fs.HadoopFileSystem(host or "default", int(port or 0), **options.resolved()), "/", [])
    return _fsspec(location, options)


def _has_obstore() -> bool:
    return importlib.util.find_spec("obstore") is not None


def client_of(filesystem: Any, location: Location, options: StorageOptions) -> Client:
    """Make the client for a filesystem that was handed over."""
    if isinstance(filesystem, str):
        raise TypeError(f"filesystem must be a pyarrow.fs, fsspec or obstore object, not {filesystem!r}")
    module = type(filesystem).__module__
    base = location.authority
    if module.startswith("pyarrow"):
        # Of a local path the first folder stands for the bucket.
        return ArrowClient(filesystem, f"/{base}" if location.is_rooted else base, [])
    if module.startswith(("obstore", "builtins")) or type(filesystem).__name__.endswith("Store"):
        # A store is bound to its bucket: a URL names it once more, a path begins below it.
        named = location.scheme in S3 | GCS | AZURE and _bucket_of(filesystem) == base
        return ObstoreClient(filesystem, "" if named else base, [])
    if hasattr(filesystem, "cat_file"):
        # Memory and local paths begin with a slash.
        is_rooted = not getattr(filesystem, "_strip_protocol", str)("x/y").startswith("x")
        return FsspecClient(filesystem, f"/{base}" if is_rooted else base, [], options.timeout)
    raise TypeError(f"filesystem must be a pyarrow.fs, fsspec or obstore object, not a {type(filesystem).__name__}")


def _bucket_of(store: Any) -> str | None:
    config = getattr(store, "config", None) or {}
    for name in ("bucket", "aws_bucket", "google_bucket", "container_name", "azure_container_name"):
        if name in config:
            return str(config[name])
    return None


def _joined(base: str, key: str) -> str:
    return f"{base.rstrip('/')}/{key}" if base else key


class _Guarded:
    """Turns what clients raise into failures of a kind."""

    def __init__(self, secrets: list[str]) -> None:
        self._secrets = secrets

    def _try(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - clients raise whatever they like
            fail(error, self._secrets)


class ArrowClient(_Guarded):
    """A ``pyarrow.fs`` filesystem.

    Its listings have no ETag: an object is known again by size and modification time, which are compared when it is
    opened. Only the checksums tell a change between two windows of an open object.
    """

    name = "pyarrow"

    def __init__(self, filesystem: Any, base: str, secrets: list[str]) -> None:
        super().__init__(secrets)
        require_own_connections(filesystem)
        end_forks_without_libraries()
        self._filesystem = filesystem
        self._base = base
        # By key and version.
        self._idle: OrderedDict[tuple[str, str | None], list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def list(self, prefix: str, recursive: bool) -> Listing:  # noqa: FBT001
        """List by a selector, which lists flat where the store can."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(_joined(self._base, prefix).rstrip("/"), recursive=recursive, allow_not_found=True)
        found = self._try(lambda: self._filesystem.get_file_info(selector))
        cut = len(_joined(self._base, ""))
        objects: list[ObjectTuple] = []
        folders: list[str] = []
        for info in found:
            key = info.path.lstrip("/") if self._base in {"", "/"} else info.path[cut:]
            if info.type == FileType.File:
                objects.append((key, info.size, _millis(info), _version(info)))
            elif info.type == FileType.Directory:
                folders.append(key)
        return objects, folders, -(-max(1, len(found)) // _PAGE)

    def stat(self, key: str) -> ObjectTuple | None:
        """Ask for one object."""
        from pyarrow.fs import FileType

        info = self._try(lambda: self._filesystem.get_file_info(_joined(self._base, key)))
        return (key, info.size, _millis(info), _version(info)) if info.type == FileType.File else None

    def read(self, wanted: ObjectRange) -> Buffer:
        """Read by a file that no other thread uses meanwhile."""
        file = self._file(wanted)
        data: Buffer = self._try(lambda: self._whole(file, wanted))
        with self._lock:
            self._idle.setdefault((wanted.key, wanted.version), []).append(file)
            self._idle.move_to_end((wanted.key, wanted.version))
            while len(self._idle) > _MAX_OPEN:
                self._idle.popitem(last=False)
        return data

    def put(self, key: str, file: Path) -> None:
        """Upload by one write.

        pyarrow completes an upload that an exception left in the middle, and ``copy_files`` keeps quiet about what
        fails at its end.
        """
        import pyarrow as pa

        def upload() -> None:
            with self._filesystem.open_output_stream(_joined(self._base, key)) as sink:
                if file.stat().st_size:
                    with pa.memory_map(str(file)) as source:
                        sink.write(source.read_buffer())

        self._try(upload)

    def _whole(self, file: Any, wanted: ObjectRange) -> Buffer:
        """Read all of a range, which pyarrow does not check.

        Of an answer that is shorter than it should be pyarrow says nothing, and the rest is what was in memory. So the
        last byte is one that is known; if it seems untouched, the range is read again with another one.
        """
        import pyarrow as pa

        buffer = pa.allocate_buffer(wanted.length)
        data = memoryview(buffer).cast("B")
        for untouched in _UNTOUCHED:
            data[-1:] = untouched
            file.seek(wanted.start)
            count = file.readinto(data)
            if count < wanted.length or data[-1:] != untouched:
                return buffer.slice(0, count)
        raise StoreError("transient", f"the store gave less than the {wanted.length} bytes that it said it would")

    def _file(self, wanted: ObjectRange) -> Any:
        with self._lock:
            idle = self._idle.setdefault((wanted.key, wanted.version), [])
            if wanted.is_first:
                # The object may be another one by now.
                idle.clear()
            elif idle:
                return idle.pop()
        file = self._try(lambda: self._filesystem.open_input_file(_joined(self._base, wanted.key)))
        self._check(file, wanted.size, wanted.version)
        return file

    def _check(self, file: Any, size: int | None, version: str | None) -> None:
        now = self._try(file.size)
        headers = headers_of(file)
        require_same_size(size, now)
        require_same_version(version, header_millis(headers), header_text(headers.get("ETag")))


def _millis(info: Any) -> int:
    return 0 if info.mtime_ns is None else int(info.mtime_ns // 1_000_000)


def _version(info: Any) -> str | None:
    return None if info.mtime_ns is None else f"{info.size}@{_millis(info)}"


class ObstoreClient(_Guarded):
    """An obstore store. Reads are pinned to the ETag of the listing."""

    name = "obstore"

    def __init__(self, store: Any, base: str, secrets: list[str]) -> None:
        super().__init__(secrets)
        _OBSTORE_PROCESSES.add(os.getpid())
        self._store = store
        self._base = base

    def list(self, prefix: str, recursive: bool) -> Listing:  # noqa: FBT001
        """List flat, or one level."""
        import obstore

        at = _joined(self._base, prefix).strip("/") or None
        if recursive:
            pages = self._try(lambda: [list(page) for page in obstore.list(self._store, prefix=at, chunk_size=_PAGE)])
            found, folders = [each for page in pages for each in page], []
        else:
            level = self._try(lambda: obstore.list_with_delimiter(self._store, prefix=at))
            found, folders = level["objects"], [self._key(each.rstrip("/")) for each in level["common_prefixes"]]
        objects = [self._tuple(each) for each in found]
        return objects, folders, -(-max(1, len(objects) + len(folders)) // _PAGE)

    def _key(self, path: str) -> str:
        return path[len(_joined(self._base, "")) :] if self._base else path

    def _tuple(self, meta: Any) -> ObjectTuple:
        modified = int(meta["last_modified"].timestamp() * 1000)
        return self._key(meta["path"]), meta["size"], modified, meta.get("e_tag")

    def stat(self, key: str) -> ObjectTuple | None:
        """Ask for one object."""
        import obstore

        try:
            return self._tuple(obstore.head(self._store, _joined(self._base, key)))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001
            fail(error, self._secrets)

    def read(self, wanted: ObjectRange) -> Buffer:
        """Read a range of the object as it was listed."""
        import obstore

        options: Any = {"range": (wanted.start, wanted.start + wanted.length)}
        if wanted.version is not None and BY_TIME.fullmatch(wanted.version) is None:
            options["if_match"] = wanted.version

        def bytes_of() -> Buffer:
            answer = obstore.get(self._store, _joined(self._base, wanted.key), options=options)
            require_same_size(wanted.size, answer.meta["size"])
            require_same_version(wanted.version, int(answer.meta["last_modified"].timestamp() * 1000), None)
            return answer.bytes()

        try:
            return bytes_of()
        except Exception as error:  # noqa: BLE001
            if type(error).__name__ == "PreconditionError":
                raise StoreError("changed", "it changed since it was listed (another ETag); plan again") from None
            fail(error, self._secrets)

    def put(self, key: str, file: Path) -> None:
        """Upload, a large file in parts."""
        import obstore

        self._try(lambda: obstore.put(self._store, _joined(self._base, key), file))


class FsspecClient(_Guarded):
    """An fsspec filesystem.

    Those that are asynchronous (s3fs) share one thread for all requests, which starves beside a busy Python thread.
    """

    name = "fsspec"

    def __init__(self, filesystem: Any, base: str, secrets: list[str], timeout: float) -> None:
        super().__init__(secrets)
        self._timeout = timeout
        self._filesystem = filesystem
        self._base = base

    def list(self, prefix: str, recursive: bool) -> Listing:  # noqa: FBT001
        """List by ``find``, or one level by ``ls``."""
        at = _joined(self._base, prefix).rstrip("/") or self._base

        def found() -> list[dict[str, Any]]:
            self._filesystem.invalidate_cache()
            try:
                if recursive:
                    return list(self._ask("find", at, detail=True).values())
                return list(self._ask("ls", at, detail=True))
            except FileNotFoundError:
                return []

        objects: list[ObjectTuple] = []
        folders: list[str] = []
        for info in self._try(found):
            key = self._key(info["name"])
            if info["type"] == "directory":
                folders.append(key.rstrip("/"))
            elif key.startswith(prefix):
                objects.append(self._tuple(key, info))
        return objects, folders, -(-max(1, len(objects) + len(folders)) // _PAGE)

    def _ask(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a method; of an asynchronous class for no longer than the timeout, which it does not know."""
        if getattr(self._filesystem, "async_impl", False) and not self._filesystem.asynchronous:
            from fsspec.asyn import sync  # type: ignore[import-untyped]

            ask = getattr(self._filesystem, f"_{method}")
            return sync(self._filesystem.loop, ask, *arguments, timeout=self._timeout, **keywords)
        return getattr(self._filesystem, method)(*arguments, **keywords)

    def _key(self, name: str) -> str:
        name, base = name.lstrip("/"), self._base.strip("/")
        return name[len(base) + 1 :] if base and name.startswith(f"{base}/") else name

    def _tuple(self, key: str, info: dict[str, Any]) -> ObjectTuple:
        modified = next(
            (info[name] for name in ("mtime", "LastModified", "last_modified", "created", "updated") if info.get(name)),
            0,
        )
        if isinstance(modified, datetime):
            modified = modified.timestamp()
        elif isinstance(modified, str):
            modified = datetime.fromisoformat(modified.replace("Z", "+00:00")).timestamp()
        version = info.get("ETag") or info.get("etag")
        millis = int(modified * 1000)
        return key, int(info["size"]), millis, str(version) if version else f"{info['size']}@{millis}"

    def stat(self, key: str) -> ObjectTuple | None:
        """Ask for one object."""
        try:
            info = self._ask("info", _joined(self._base, key))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001
            fail(error, self._secrets)
        return None if info["type"] == "directory" else self._tuple(key, info)

    def read(self, wanted: ObjectRange) -> Buffer:
        """Read a range, the first one after a check of size and version."""
        if wanted.is_first and wanted.size is not None:
            self._filesystem.invalidate_cache()
            now = self.stat(wanted.key)
            if now is None:
                raise StoreError("missing", "there is no such object any more")
            require_same_size(wanted.size, now[1])
            require_same_version(wanted.version, now[2], None if BY_TIME.fullmatch(now[3] or "") else now[3])
        start, end = wanted.start, wanted.start + wanted.length
        return bytes(self._try(lambda: self._ask("cat_file", _joined(self._base, wanted.key), start=start, end=end)))

    def put(self, key: str, file: Path) -> None:
        """Upload by ``put_file``."""
        self._try(lambda: self._filesystem.put_file(str(file), _joined(self._base, key)))


def _arrow(location: Location, options: StorageOptions) -> Client:
    import pyarrow.fs as pa_fs

    known, secrets = options.known(), options.secrets()
    endpoint = known.get("endpoint")
    scheme, _, host = endpoint.partition("://") if endpoint and "://" in endpoint else ("", "", endpoint)
    host = host.rstrip("/") if host else None
    if location.scheme in S3:
        skip = truth(known.get("skip_signature", False))
        arguments: dict[str, Any] = {
            "anonymous": skip or None,
            "access_key": known.get("access_key_id"),
            "secret_key": known.get("secret_access_key"),
            "session_token": known.get("session_token"),
            "region": known.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            "endpoint_override": host,
            "scheme": scheme or ("http" if endpoint and truth(known.get("allow_http", False)) else None),
            "force_virtual_addressing": truth(known["virtual_hosted_style_request"])
            if "virtual_hosted_style_request" in known
            else None,
            "request_timeout": seconds("timeout", known.get("timeout", 30)),
            "connect_timeout": seconds("connect_timeout", known.get("connect_timeout", 5)),
            "proxy_options": known.get("proxy_url"),
            "retry_strategy": pa_fs.AwsStandardS3RetryStrategy(max_attempts=1),
        }
        if arguments["region"] is None:
            arguments["region"] = (
                "us-east-1" if host or os.environ.get("AWS_ENDPOINT_URL") else _region(location.authority)
            )
        given = {name: value for name, value in arguments.items() if value is not None}
        with about_options(location.root, secrets):
            return ArrowClient(pa_fs.S3FileSystem(**given), location.authority, secrets)
    if location.scheme in GCS:
        if known.keys() & {"service_account", "service_account_key", "application_credentials"}:
            raise ValueError(
                "a service account in storage_options needs obstore (pip install kafkalog[obstore]); pyarrow takes it "
                "from GOOGLE_APPLICATION_CREDENTIALS"
            )
        arguments = {
            "anonymous": truth(known.get("skip_signature", False)),
            "endpoint_override": host,
            "scheme": scheme or None,
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        with about_options(location.root, secrets):
            return ArrowClient(pa_fs.GcsFileSystem(**given), location.authority, secrets)
    container, account = _container(location, known)
    blob, dfs = azure_authorities(host, account)
    arguments = {
        "account_key": known.get("account_key"),
        "sas_token": known.get("sas_token"),
        "client_id": known.get("client_id"),
        "client_secret": known.get("client_secret"),
        "tenant_id": known.get("tenant_id"),
        "blob_storage_authority": blob,
        # Without it the account's own address is called.
        "dfs_storage_authority": dfs,
        "blob_storage_scheme": scheme or None,
        "dfs_storage_scheme": scheme or None,
    }
    given = {name: value for name, value in arguments.items() if value is not None}
    with about_options(location.root, secrets):
        return ArrowClient(pa_fs.AzureFileSystem(account, **given), container, secrets)


def azure_authorities(host: str | None, account: str) -> tuple[str | None, str | None]:
    """Return the hosts of pyarrow's two services for the endpoint of an account, to which pyarrow adds the account.

    It is in the host of ``account.blob.core.windows.net``, and in the path of an emulator's ``127.0.0.1:1/account``.
    """
    if host is None:
        return None, None
    host = host.partition("/")[0]
    if not host.startswith(f"{account}."):
        return host, host
    service = host.removeprefix(account)
    return service, service.replace(".blob.", ".dfs.", 1)


def _region(bucket: str) -> str:
    import pyarrow.fs as pa_fs

    try:
        return str(pa_fs.resolve_s3_region(bucket))
    except (OSError, ValueError):
        return "us-east-1"


def _container(location: Location, known: dict[str, Any]) -> tuple[str, str]:
    container, _, host = location.authority.partition("@")
    account = host.partition(".")[0] or known.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise ValueError(
            f"{location.root}: no storage account; give storage_options azure_storage_account_name, or "
            "container@account in the URL"
        )
    return container, str(account)


def _obstore(location: Location, options: StorageOptions) -> Client:
    import obstore.store as stores

    known, secrets = options.known(), options.secrets()
    client: dict[str, Any] = {"timeout": f"{options.timeout}s"}
    if "connect_timeout" in known:
        client["connect_timeout"] = f"{seconds('connect_timeout', known.pop('connect_timeout'))}s"
    if "proxy_url" in known:
        client["proxy_url"] = known.pop("proxy_url")
    for name in ("timeout", "max_retries"):
        known.pop(name, None)
    endpoint = known.get("endpoint", os.environ.get("AWS_ENDPOINT_URL", ""))
    if truth(known.pop("allow_http", False)) or str(endpoint).startswith("http://"):
        client["allow_http"] = True
    name, made = location.authority, cast("Any", stores.S3Store if location.scheme in S3 else stores.GCSStore)
    if location.scheme in AZURE:
        name, known["account_name"] = _container(location, known)
        made = stores.AzureStore
    with about_options(location.root, secrets):
        store = made(name, config=known, client_options=client, retry_config={"max_retries": 0})
    return ObstoreClient(store, "", secrets)


def _fsspec(location: Location, options: StorageOptions) -> Client:
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(
            f"{location.root}: fsspec reads such URLs, and it is not installed (pip install fsspec)"
        ) from None
    given = {
        name: value
        for name, value in options.resolved().items()
        if name not in {"max_retries", "timeout", "connect_timeout"}
    }
    if location.scheme in S3:
        known = options.known()
        names = {
            "access_key_id": "key",
            "secret_access_key": "secret",
            "session_token": "token",
            "endpoint": "endpoint_url",
        }
        given = {new: known[name] for name, new in names.items() if name in known}
        given |= {"anon": True} if truth(known.get("skip_signature", False)) else {}
    try:
        filesystem, path = fsspec.core.url_to_fs(location.root + "/", **given)
    except (ImportError, TypeError, ValueError) as error:
        # A TypeError names options that the file system needs.
        raise ValueError(f"{location.root}: {error}") from None
    return FsspecClient(filesystem, path.rstrip("/"), options.secrets(), options.timeout)
