"""CRC-32C, a bit at a time: a witness that shares no code with the product (RFC 3720, appendix B.4)."""

from __future__ import annotations

POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


def of(data: bytes) -> int:
    """Return the checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
