"""Redis clients that inturn creates from an address. They give up when the server is silent."""

from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

SILENCE = 2.5  # seconds without a response after which the connection is dropped


def client_at(address: str, **options: Any) -> Any:
    """Return a client for the address, whose own options take precedence over ours.

    It does not retry, because the lock engine repeats what can be repeated.
    """
    return _make_client(Redis, address, retry=Retry(NoBackoff(), 0), **options)


def async_client_at(address: str, **options: Any) -> Any:
    """Return an async client for the address. See `client_at`."""
    return _make_client(AsyncRedis, address, retry=AsyncRetry(NoBackoff(), 0), **options)


def _make_client(kind: Any, address: str, **options: Any) -> Any:
    limits = {"socket_timeout": SILENCE}
    if not address.startswith("unix://"):
        limits["socket_connect_timeout"] = SILENCE
    try:
        return kind.from_url(address, **limits, **options)
    except ValueError:  # the client's message repeats the address, which may contain a password
        raise ValueError(
            "this is not a Redis address. Write redis://user:password@host:6379/0. In a password, "
            "write / @ ? # [ and % as %2F %40 %3F %23 %5B and %25"
        ) from None
