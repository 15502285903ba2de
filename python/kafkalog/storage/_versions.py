"""Versions of objects: an ETag, or size and time where listings have none, as any of the clients lists them."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kafkalog.storage._failures import StoreError

# A version where listings have no ETag.
BY_TIME = re.compile(r"\d+@(\d+)")


def headers_of(file: Any) -> dict[str, Any]:
    """Return the headers of an answer that opened a file of pyarrow's."""
    try:
        return {str(name): value for name, value in (file.metadata() or {}).items()}
    except Exception:  # noqa: BLE001 - a filesystem without headers
        return {}


def header_text(header: bytes | None) -> str | None:
    """Return the text of a header, if it is there."""
    return bytes(header).decode("utf-8", "replace") if header else None


def header_millis(headers: dict[str, Any]) -> int | None:
    """Return the time of modification in milliseconds; headers have whole seconds."""
    text = header_text(headers.get("Last-Modified"))
    if text is None:
        return None
    try:
        time = (
            datetime.fromisoformat(text.replace("Z", "+00:00")) if text[:1].isdigit() else parsedate_to_datetime(text)
        )
    except ValueError:
        return None
    return int(time.timestamp() * 1000)


def require_same_size(size: int | None, now: int) -> None:
    """Compare with the size in the listing; another one raises ``StoreError``."""
    if size is not None and now != size:
        raise StoreError("changed", f"it has {now} bytes, and had {size} when it was listed: it changed; plan again")


def require_same_version(listed: str | None, millis: int | None, etag: str | None) -> None:
    """Compare with what any of the clients has listed, here or in another process: an ETag, or size and time."""
    by_time = BY_TIME.fullmatch(listed or "")
    if by_time is not None:
        # Headers have whole seconds.
        is_same = millis is None or int(by_time[1]) // 1000 == millis // 1000
    else:
        is_same = listed is None or etag is None or listed.strip('"') == etag.strip('"')
    if not is_same:
        raise StoreError("changed", "it was modified since it was listed; plan again")
