"""Content addresses: the same content has the same identity in every process and on every machine."""

import hashlib
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")


def content_id(*parts: Any) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the parts' canonical JSON."""
    return hashlib.sha256(_ENCODER.encode(parts)).hexdigest()[:16]
