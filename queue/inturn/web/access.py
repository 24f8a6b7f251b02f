"""Authorization: who may see the pages, and who may take which actions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from time import monotonic
from typing import ClassVar

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inturn.errors import ConfigurationError

ACTIONS = (
    "retry",
    "cancel",
    "delete",
    "pause",  # and resume
    "enqueue",
    "schedule",
    "limit",
    "batch",
    "view_args",  # sees arguments and results, and changes nothing
)
READS = frozenset({"view_args"})
SCRYPT = {"n": 2**14, "r": 8, "p": 1}
REMEMBERED = 64  # correct passwords, which are not checked again
CHECKED_AT_ONCE = 2  # each needs 16 MiB and a thread
WAITING = 16  # checks that may wait for those; the tabs of a few people
FREE_FAILURES = 5  # per address and name, before it has to wait
LONGEST_WAIT = 60.0  # seconds
MOST_GUESSERS = 1000  # to remember


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do: `FORBIDDEN`, `READ_ONLY`, `FULL`, or some actions.

        Access.FULL.named("ana")
        Access.only("retry", "pause")

    The audit records `name` with the request's changes.
    """

    sees: bool
    actions: frozenset[str]
    name: str | None = None
    FORBIDDEN: ClassVar[Access]
    READ_ONLY: ClassVar[Access]
    FULL: ClassVar[Access]

    @classmethod
    def only(cls, *actions: str) -> Access:
        """Return an access to all pages and these actions."""
        for action in actions:
            if action not in ACTIONS:
                raise ConfigurationError(
                    f"{action!r} is not an action of the dashboard. Use {', '.join(ACTIONS)}"
                )
        return cls(True, frozenset(actions))

    def named(self, name: str | None) -> Access:
        """Return the same access for a person with this name."""
        return replace(self, name=name)

    def without_changes(self) -> Access:
        """Return the same access without the actions that change anything."""
        return replace(self, actions=self.actions & READS)

    def may(self, action: str) -> bool:
        """Return True if the request may take this action."""
        return self.sees and action in self.actions


Access.FORBIDDEN = Access(False, frozenset())
Access.READ_ONLY = Access(True, READS)
Access.FULL = Access(True, frozenset(ACTIONS))
Authorize = Callable[[Request], Access | Awaitable[Access]]


def allow_everybody(request: Request) -> Access:
    """Allow everything to everyone who can reach the port."""
    return Access.FULL


class SecretLink:
    """Admits browsers that open the link with the key, and remembers them with a cookie.

    link = SecretLink()
    create_app(app, authorize=link)
    print(f"http://127.0.0.1:8000/{link.query}")

    Without a key, it makes one. A client's address proves nothing: a local proxy or a tunnel
    forwards for others.
    """

    hint = "Open the link with ?key= that the dashboard printed or logged at startup."

    def __init__(self, key: str | None = None) -> None:
        self._key = key or secrets.token_urlsafe(24)
        # All ports of a host share their cookies.
        self._cookie = f"inturn-{hashlib.sha256(self._key.encode()).hexdigest()[:8]}"

    @property
    def query(self) -> str:
        """The part of the link after the dashboard's address."""
        return f"?key={self._key}"

    def __call__(self, request: Request) -> Access:
        """Return full access if the browser has opened the link."""
        return Access.FULL if self._is_key(request.cookies.get(self._cookie)) else Access.FORBIDDEN

    def admit(self, request: Request) -> Response | None:
        """Return a response that sets the cookie, if the address has the key."""
        if request.method != "GET" or not self._is_key(request.query_params.get("key")):
            return None
        page = request.url.remove_query_params("key")
        answer = RedirectResponse(page.path + (f"?{page.query}" if page.query else ""), 303)
        answer.set_cookie(
            self._cookie,
            self._key,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _is_key(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._key.encode())


class Guesses:
    """Wrong passwords: after some, each doubles the wait for the next try."""

    def __init__(self) -> None:
        self._failed: dict[object, tuple[int, float]] = {}  # how often, and when last

    def check(self, guesser: object) -> None:
        """Raise HTTPException if the guesser has to wait."""
        count, at = self._failed.get(guesser, (0, 0.0))
        if count >= FREE_FAILURES:
            wait = at + min(2.0 ** (count - FREE_FAILURES), LONGEST_WAIT) - monotonic()
            if wait > 0:
                raise _too_many(wait)

    def add(self, guesser: object) -> None:
        """Count a wrong password."""
        count, _ = self._failed.pop(guesser, (0, 0.0))
        if len(self._failed) >= MOST_GUESSERS:
            del self._failed[next(iter(self._failed))]
        self._failed[guesser] = min(count + 1, FREE_FAILURES + 10), monotonic()

    def forget(self, guesser: object) -> None:
        """Reset after a correct password."""
        self._failed.pop(guesser, None)


class BasicAuth:
    """Asks for a name and a password. `users` has the hash of each, see `hash_password`.

    create_app(app, authorize=BasicAuth({"ana": os.environ["ANA_HASH"]}))

    Guessers get status 429, and do not lock out others.
    """

    challenge = 'Basic realm="inturn", charset="UTF-8"'

    def __init__(self, users: Mapping[str, str], access: Access = Access.FULL) -> None:
        self._users = {name: _read_hash(name, text) for name, text in users.items()}
        self._access = access
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}  # correct ones, so that pages stay fast
        self._guesses = Guesses()
        self._room = anyio.Semaphore(CHECKED_AT_ONCE)
        self._asked = 0  # checks that run or wait

    async def __call__(self, request: Request) -> Access:
        """Return the access of a user with the correct password."""
        found = _read_basic(request.headers.get("authorization", ""))
        if found is None:
            return Access.FORBIDDEN
        name, password = found
        digest = hmac.digest(self._key, f"{len(name)}:{name}{password}".encode(), "sha256")
        if digest not in self._right and not await self._check(request, name, password, digest):
            return Access.FORBIDDEN
        return self._access.named(name)

    async def _check(self, request: Request, name: str, password: str, digest: bytes) -> bool:
        # Per name too: people behind a proxy share an address.
        guesser = (request.client and request.client.host, name if name in self._users else None)
        self._guesses.check(guesser)
        if self._asked >= CHECKED_AT_ONCE + WAITING:
            raise _too_many(1.0)
        self._asked += 1
        try:
            async with self._room:
                self._guesses.check(guesser)
                if digest in self._right:  # another tab was faster
                    return True
                right = await anyio.to_thread.run_sync(self._is_right, name, password)
        finally:
            self._asked -= 1
        if not right:
            self._guesses.add(guesser)
            return False
        self._guesses.forget(guesser)
        if len(self._right) >= REMEMBERED:
            del self._right[next(iter(self._right))]
        self._right[digest] = None
        return True

    def _is_right(self, name: str, password: str) -> bool:
        # An unknown name takes as long as a wrong password.
        salt, expected = self._users.get(name, (b"unknown", b""))
        return hmac.compare_digest(_scrypt(password, salt), expected)


class TrustedHeader:
    """Trusts a header set by a proxy, such as X-Forwarded-User.

    create_app(app, authorize=TrustedHeader("X-Forwarded-User", proxy="10.0.0.5"))

    `proxy` is its address or network. Requests from elsewhere are forbidden.
    """

    def __init__(self, header: str, *, proxy: str, access: Access = Access.FULL) -> None:
        self._header = header
        self._proxy = ip_network(proxy)
        self._access = access

    def __call__(self, request: Request) -> Access:
        """Return the access of the user named by the proxy."""
        names = request.headers.getlist(self._header)
        if request.client is None or len(names) != 1 or not names[0].strip():
            return Access.FORBIDDEN
        try:
            is_proxy = ip_address(request.client.host) in self._proxy
        except ValueError:
            return Access.FORBIDDEN
        return self._access.named(names[0].strip()) if is_proxy else Access.FORBIDDEN


def hash_password(password: str) -> str:
    """Return the hash of a password, for `BasicAuth`."""
    salt = os.urandom(16)
    return f"scrypt:{salt.hex()}:{_scrypt(password, salt).hex()}"


def _too_many(seconds: float) -> HTTPException:
    headers = {"retry-after": str(math.ceil(seconds))}
    return HTTPException(429, "Too many wrong passwords. Wait a moment.", headers)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, dklen=32, **SCRYPT)


def _read_hash(name: str, text: str) -> tuple[bytes, bytes]:
    try:
        kind, salt, digest = text.split(":")
        if kind != "scrypt":
            raise ValueError
        return bytes.fromhex(salt), bytes.fromhex(digest)
    except ValueError:
        raise ConfigurationError(
            f"The hash of {name!r} cannot be read. Make one: queue web --hash-password"
        ) from None


def _read_basic(header: str) -> tuple[str, str] | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:  # not base64, or not UTF-8
        return None
    return (name, password) if colon else None
