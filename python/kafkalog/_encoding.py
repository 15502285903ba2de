"""Bytes as text, without loss.

UTF-8 is written as it is. Other bytes, and text that starts with ``base64:``, are written as ``base64:`` and their
base64 encoding.
"""

from __future__ import annotations

import base64
import binascii

_MARK = "base64:"


def text_of(data: bytes | None) -> str | None:
    """Return bytes as text; None stays None."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _MARK + base64_of(data)
    return _MARK + base64_of(data) if text.startswith(_MARK) else text


def base64_of(data: bytes) -> str:
    """Return bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode()


def bytes_of(text: str) -> bytes:
    """Reverse :func:`text_of`."""
    return from_base64(text[len(_MARK) :]) if text.startswith(_MARK) else text.encode()


def from_base64(text: str) -> bytes:
    """Reverse :func:`base64_of`."""
    return base64.b64decode(text, validate=True)
