"""A small S3 on loopback, which counts requests and breaks answers on demand. It checks no signatures, only names.

It stands for the store in the short tier, as a server of its own that starts in no time: listings by page and level,
ranges, ETags, ``If-Match``, uploads in one or in parts. pyarrow and obstore are the witnesses of what it answers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import socket
import struct
import threading
import time
from bisect import bisect_left
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

PAGE = 1000
CLIENTS = ("pyarrow", *(["obstore"] if importlib.util.find_spec("obstore") else []))
SECRET = "s3cr3t-of-the-tests"  # noqa: S105 - made up
# A fault takes the kind of a request, its key and its number of that kind, and returns a name below, or None.
Fault = "Callable[[str, str, int], str | None]"
STATUS = {
    "slow-down": (503, "SlowDown"),
    "throttle": (429, "TooManyRequests"),
    "internal": (500, "InternalError"),
    "denied": (403, "AccessDenied"),
    "missing": (404, "NoSuchKey"),
}


class S3Server:
    """One bucket of bytes by key."""

    def __init__(self, objects: dict[str, bytes] | None = None, bucket: str = "bkt") -> None:
        self.bucket, self.objects = bucket, dict(objects or {})
        self.modified = 1_700_000_000
        # Parts by upload and number, until the upload is completed.
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.counts: Counter[str] = Counter()
        self.bytes = self.listed = self.most_at_once = self.at_once = 0
        self.fault: Callable[[str, str, int], str | None] = lambda kind, key, number: None  # noqa: ARG005
        # Access keys that asked, and those that are denied everything.
        self.accounts: set[str] = set()
        self.refused: set[str] = set()
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def put_folder(self, folder: Path, prefix: str = "") -> None:
        """Take in the files of a folder."""
        for file in folder.rglob("*"):
            if file.is_file():
                self.objects[f"{prefix}{file.relative_to(folder).as_posix()}"] = file.read_bytes()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options by the names of object_store."""
        return {
            "aws_access_key_id": "kafkalog",
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    def options_for(self, client: str, monkeypatch: pytest.MonkeyPatch, retries: int) -> dict[str, Any]:
        """Have a client of ``CLIENTS`` read, and return its options: other retries are another mount."""
        from kafkalog.storage import _clients

        monkeypatch.setattr(_clients, "_has_obstore", lambda: client == "obstore")
        self.reset()
        return {**self.storage_options, "max_retries": retries + CLIENTS.index(client)}

    def reset(self) -> None:
        """Begin counting anew, without faults."""
        with self.lock:
            self.counts.clear()
            self.bytes = self.listed = self.most_at_once = 0
        self.fault = lambda kind, key, number: None  # noqa: ARG005

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _handler(server: S3Server) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one class
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._counted("HEAD")

        def do_GET(self) -> None:
            self._counted("")

        def do_PUT(self) -> None:
            self._counted("PUT")

        def do_POST(self) -> None:
            self._counted("POST")

        def do_DELETE(self) -> None:
            self._counted("DELETE")

        def _counted(self, kind: str) -> None:
            with server.lock:
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self._answer(kind)
            finally:
                with server.lock:
                    server.at_once -= 1

        def _answer(self, kind: str) -> None:
            url = urlsplit(self.path)
            _, _, key = unquote(url.path).lstrip("/").partition("/")
            kind = kind or ("GET" if key else "LIST")
            with server.lock:
                server.counts[kind] += 1
                number = server.counts[kind]
            account = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
            server.accounts.add(account)
            fault = "denied" if account in server.refused else server.fault(kind, key, number)
            sent = self._sent() if kind in {"PUT", "POST"} else b""
            if fault in STATUS:
                code, name = STATUS[fault]
                text = f"<Error><Code>{name}</Code><Message>injected</Message></Error>".encode()
                self._send(code, text, {"Content-Type": "application/xml"})
            elif fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
            elif fault == "stall":
                time.sleep(6)
                self.close_connection = True
            elif kind in {"PUT", "POST", "DELETE"}:
                self._upload(kind, key, parse_qs(url.query, keep_blank_values=True), sent)
            elif kind == "LIST":
                text = self._listing(parse_qs(url.query))
                with server.lock:
                    server.listed += len(text)
                self._send(200, text, {"Content-Type": "application/xml"}, fault)
            else:
                self._object(key, fault)

        def _sent(self) -> bytes:
            data = b""
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
                return data
            # Size in hexadecimal and a signature, the bytes, and so on; at the end perhaps a checksum.
            whole = b""
            while data:
                head, _, data = data.partition(b"\r\n")
                size = int(head.partition(b";")[0] or b"0", 16)
                if size == 0:
                    break
                whole, data = whole + data[:size], data[size + 2 :]
            return whole

        def _upload(self, kind: str, key: str, query: dict[str, list[str]], sent: bytes) -> None:
            upload = query.get("uploadId", [""])[0]
            headers = {"Content-Type": "application/xml"}
            if kind == "POST" and not upload:
                upload = f"{len(server.uploads)}-{server.counts['POST']}"
                server.uploads[upload] = {}
                self._send(200, _answer_of("InitiateMultipartUpload", UploadId=upload, Key=key), headers)
            elif kind == "POST":
                parts = server.uploads.pop(upload)
                server.objects[key] = b"".join(parts[number] for number in sorted(parts))
                etag = _etag(server.objects[key])
                self._send(200, _answer_of("CompleteMultipartUpload", Key=key, ETag=etag), headers)
            elif kind == "DELETE":
                server.uploads.pop(upload, None)
                self._send(204, b"", {})
            elif upload:
                server.uploads[upload][int(query["partNumber"][0])] = sent
                self._send(200, b"", {"ETag": _etag(sent)})
            else:
                server.objects[key] = sent
                self._send(200, b"", {"ETag": _etag(sent)})

        def _listing(self, query: dict[str, list[str]]) -> bytes:
            prefix, delimiter = (query.get(name, [""])[0] for name in ("prefix", "delimiter"))
            after = query.get("continuation-token", query.get("start-after", [""]))[0]
            most = min(int(query.get("max-keys", [PAGE])[0]), PAGE)
            keys = sorted(server.objects)
            # The folder that the last page ended with is not entered.
            last = f"{after[:-1]}{chr(ord(delimiter) + 1)}" if delimiter and after.endswith(delimiter) else f"{after}\0"
            at = bisect_left(keys, max(prefix, last if after else ""))
            entries: dict[str, bool] = {}
            while at < len(keys) and keys[at].startswith(prefix) and len(entries) <= most:
                cut = keys[at].find(delimiter, len(prefix)) if delimiter else -1
                entries[keys[at] if cut < 0 else keys[at][: cut + 1]] = cut >= 0
                at = at + 1 if cut < 0 else bisect_left(keys, f"{keys[at][:cut]}{chr(ord(delimiter) + 1)}", at)
            page, more = list(entries)[:most], len(entries) > most
            lines = [
                f"<Name>{server.bucket}</Name><KeyCount>{len(page)}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"
            ]
            lines += [f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"] if more else []
            time_text = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(server.modified))
            for entry in page:
                if entries[entry]:
                    lines.append(f"<CommonPrefixes><Prefix>{escape(entry)}</Prefix></CommonPrefixes>")
                else:
                    data = server.objects[entry]
                    lines.append(
                        f"<Contents><Key>{escape(entry)}</Key><LastModified>{time_text}</LastModified><ETag>{_etag(data)}</ETag><Size>{len(data)}</Size></Contents>"
                    )
            text = "".join(lines)
            return f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{text}</ListBucketResult>'.encode()

        def _object(self, key: str, fault: str | None) -> None:
            data = server.objects.get(key)
            if data is None:
                self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
                return
            headers = {
                "ETag": _etag(data),
                "Last-Modified": formatdate(server.modified, usegmt=True),
                "Accept-Ranges": "bytes",
            }
            if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
                self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>", {})
                return
            asked = self.headers.get("Range")
            code = 200
            if asked is not None:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last or len(data)), len(data) - 1)
                if start >= len(data):
                    self._send(416, b"<Error><Code>InvalidRange</Code></Error>", {})
                    return
                headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
                data, code = data[start : end + 1], 206
            self._send(code, data, headers, fault)

        def _send(self, code: int, data: bytes, headers: dict[str, str], fault: str | None = None) -> None:
            if fault == "short" and self.command != "HEAD":
                data = data[:-1]
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if fault == "truncate":
                data = data[: len(data) // 2]
                self.close_connection = True
            with server.lock:
                server.bytes += len(data)
            self.wfile.write(data)

    return Handler


def _answer_of(action: str, **fields: str) -> bytes:
    inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
    return f'<?xml version="1.0"?><{action}Result>{inside}</{action}Result>'.encode()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
