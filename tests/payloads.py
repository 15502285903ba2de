"""Bytes as text, as the guides describe it: text as it is, and other bytes as base64 in a field of their own."""

from __future__ import annotations

import base64
from typing import Any


def text_of(data: bytes | None) -> str | None:
    """Give the text of bytes; None for null and for what is not UTF-8."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def fields_of(name: str, data: bytes | None) -> dict[str, Any]:
    """Give the field, and the one beside it if there is one."""
    text = text_of(data)
    beside = {} if data is None or text is not None else {f"{name}Base64": base64.b64encode(data).decode()}
    return {name: text, **beside}


def element_of(data: bytes | None) -> Any:
    """Give an element of kcat's list of headers."""
    text = text_of(data)
    return {"base64": base64.b64encode(data).decode()} if data is not None and text is None else text


def bytes_of(name: str, fields: dict[str, Any]) -> bytes | None:
    """Give the bytes back."""
    if f"{name}Base64" in fields:
        assert fields[name] is None
        return base64.b64decode(fields[f"{name}Base64"], validate=True)
    return None if fields[name] is None else fields[name].encode()
