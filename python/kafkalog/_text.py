"""Bytes as text, without loss.

UTF-8 is shown as it is. Other bytes, and text that begins with ``base64:``, are shown as ``base64:`` and their base64.
"""

from __future__ import annotations

import base64
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


def bytes_of(text: str) -> bytes:
    """Give back what :func:`text_of` made text of.

    Raises
    ------
    ValueError
        When what stands behind ``base64:`` is none.
    """
    return from_base64(text[len(_MARK) :]) if text.startswith(_MARK) else text.encode()


def from_base64(text: str) -> bytes:
    """Give back what :func:`base64_of` made text of.

    Raises
    ------
    ValueError
        When it is no base64.
    """
    return base64.b64decode(text, validate=True)
