"""Handles: strings that name a lease, for another function or another process."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any


def encode_handle(facts: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(facts).encode()).decode()


def decode_handle(handle: str) -> dict[str, Any]:
    try:
        facts = json.loads(urlsafe_b64decode(handle))
        if (
            isinstance(facts, dict)
            and isinstance(facts["name"], str)
            and isinstance(facts["lock_id"], str)
        ):
            return facts
    except (ValueError, KeyError):
        pass
    raise ValueError("this is not a lock's handle; pass what Lease.handle() returned")
