"""Bytes as text, without loss.

UTF-8 is shown as it is. Other bytes, and text that begins with ``base64:``, are shown as ``base64:`` and their base64.
"""

from __future__ import annotations

import binascii

_MARK = "base64:"


def text_of(data: bytes | None) -> str | None:
    """Give bytes as text; null stays null."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _MARK + base64_of(data)
    return _MARK + base64_of(data) if text.startswith(_MARK) else text


def base64_of(data: bytes) -> str:
    """Give bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode()
