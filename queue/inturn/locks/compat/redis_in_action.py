"""The two functions of the book "Redis in Action", by their names and defaults, without the old ones' gaps.

Promise a lease that nobody renews: after `lock_timeout` it is free, whether its holder has finished or not. Advisory:
only who asks is kept out.
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
    """The identifier to release it with, or False after `acquire_timeout` seconds."""
    check_ttl(lock_timeout)
    port, key, identifier = RedisPort(conn), f"lock:{lockname}", secrets.token_hex(16)
    life = math.ceil(lock_timeout) * 1000
    end = time.monotonic() + acquire_timeout
    while True:
        if port.do(Call(script("token_take"), (key,), (identifier, life, "1"))) == 1:
            return identifier
        # The old two commands could leave it without an expiry, and it was never free again.
        port.do(Call(script("token_repair"), (key,), (life,)))
        if time.monotonic() >= end:
            return False
        time.sleep(PAUSE)


def release_lock(conn: Any, lockname: str, identifier: str) -> bool:
    """True if it was ours, False if it was lost."""
    key = f"lock:{lockname}"
    mark = beside(key, f":released:{identifier}").decode()
    return bool(RedisPort(conn).do(Call(script("token_release"), (key, mark), (identifier, MARK_MS))))
