"""The two lock functions of the book "Redis in Action", without the gaps of the originals.

Names and defaults are the same.

**Promises (a lease).** It is not renewed: after `lock_timeout` it is free, whether or not its
holder has finished. It is advisory: it only excludes callers that ask for it.
"""

import math
import secrets
import time
from typing import Any, Literal

from inturn.locks.core.settings import check_ttl
from inturn.locks.redis.ports import RedisPort
from inturn.locks.redis.scripts import MARK_MS, Call, beside, script

PAUSE = 0.001  # seconds between two tries, as in the book


def acquire_lock_with_timeout(
    conn: Any, lockname: str, acquire_timeout: float = 10, lock_timeout: float = 10
) -> str | Literal[False]:
    """Return the identifier to release the lock with, or False after `acquire_timeout` seconds."""
    check_ttl(lock_timeout)
    port, key, identifier = RedisPort(conn), f"lock:{lockname}", secrets.token_hex(16)
    life = math.ceil(lock_timeout) * 1000
    end = time.monotonic() + acquire_timeout
    while True:
        if port.do(Call(script("token_take"), (key,), (identifier, life, "1"))) == 1:
            return identifier
        # The book's two commands can leave a lock without an expiry, which would never be free
        # again.
        port.do(Call(script("token_repair"), (key,), (life,)))
        if time.monotonic() >= end:
            return False
        time.sleep(PAUSE)


def release_lock(conn: Any, lockname: str, identifier: str) -> bool:
    """Release the lock. Return False if it was lost."""
    key = f"lock:{lockname}"
    mark = beside(key, f":released:{identifier}").decode()
    reply = RedisPort(conn).do(Call(script("token_release"), (key, mark), (identifier, MARK_MS)))
    return bool(reply)
