"""What a lease is called in another function or process."""

import json
from base64 import urlsafe_b64decode
from typing import Any


def facts_of(handle: str) -> dict[str, Any]:
    try:
        facts = json.loads(urlsafe_b64decode(handle))
        if isinstance(facts, dict) and isinstance(facts["name"], str) and isinstance(facts["lock_id"], str):
            return facts
    except (ValueError, KeyError):
        pass
    raise ValueError("this is no handle of a lock; give what Lease.handle() returned")
