"""Bytes as base64, and back."""

from __future__ import annotations

import base64

BESIDE = "Base64"
"""End of the name of the field that has the bytes which are not UTF-8: ``valueBase64`` beside ``value``."""


def from_base64(text: str) -> bytes:
    """Return the bytes of base64."""
    return base64.b64decode(text, validate=True)
