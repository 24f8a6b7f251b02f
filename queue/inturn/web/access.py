"""Who may see the pages, and which actions each of them may take."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from inspect import isawaitable
from ipaddress import ip_address, ip_network
from typing import ClassVar

import anyio.to_thread
from starlette.requests import Request

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
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
SCRYPT = {"n": 2**14, "r": 8, "p": 1}
REMEMBERED = 64  # right passwords, which are not checked again


@dataclass(frozen=True, slots=True)
class Access:
    """How much one request may do: `FORBIDDEN`, `READ_ONLY`, `FULL`, or some actions.

        Access.FULL.named("ana")
        Access.only("retry", "pause")

    `name` stands in the audit of what the request changes.
    """

    sees: bool
    actions: frozenset[str]
    name: str | None = None
    FORBIDDEN: ClassVar[Access]
    READ_ONLY: ClassVar[Access]
    FULL: ClassVar[Access]

    @classmethod
    def only(cls, *actions: str) -> Access:
        """Return an access that sees all pages and may take these actions."""
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
        """Return the same access without the actions that change something."""
        return replace(self, actions=self.actions & READS)

    def may(self, action: str) -> bool:
        """Return True if the request may take this action."""
        return self.sees and action in self.actions


Access.FORBIDDEN = Access(False, frozenset())
Access.READ_ONLY = Access(True, READS)
Access.FULL = Access(True, frozenset(ACTIONS))
Authorize = Callable[[Request], Access | Awaitable[Access]]


async def decide(authorize: Authorize, request: Request, *, read_only: bool) -> Access:
    """Return what a request may do."""
    found = authorize(request)
    access = await found if isawaitable(found) else found
    return access.without_changes() if read_only else access


def allow_this_machine(request: Request) -> Access:
    """Allow everything to browsers of this machine, and nothing to others.

    A proxy on this machine speaks for others, so a request that it forwards is refused. Host is
    looked at too: a page elsewhere can give its own name the address of this machine.
    """
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    is_local = request.client is None or _is_loopback(request.client.host)
    is_forwarded = any(header in request.headers for header in FORWARDED)
    return (
        Access.FULL if is_local and name in LOCAL_HOSTS and not is_forwarded else Access.FORBIDDEN
    )


def allow_everybody(request: Request) -> Access:
    """Allow everything to everybody who reaches the port."""
    return Access.FULL


class BasicAuth:
    """Asks for a name and a password. `users` has the hash of each, see `hash_password`.

    create_app(app, authorize=BasicAuth({"ana": os.environ["ANA_HASH"]}))
    """

    challenge = 'Basic realm="inturn", charset="UTF-8"'

    def __init__(self, users: Mapping[str, str], access: Access = Access.FULL) -> None:
        self._users = {name: _read_hash(name, text) for name, text in users.items()}
        self._access = access
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}  # what was right already, so that pages stay fast

    async def __call__(self, request: Request) -> Access:
        """Return the access of a user whose password is right."""
        found = _read_basic(request.headers.get("authorization", ""))
        if found is None:
            return Access.FORBIDDEN
        name, password = found
        digest = hmac.digest(self._key, f"{len(name)}:{name}{password}".encode(), "sha256")
        if digest not in self._right:
            if not await anyio.to_thread.run_sync(self._is_right, name, password):
                return Access.FORBIDDEN
            if len(self._right) >= REMEMBERED:
                del self._right[next(iter(self._right))]
            self._right[digest] = None
        return self._access.named(name)

    def _is_right(self, name: str, password: str) -> bool:
        # An unknown name takes as long as a wrong password.
        salt, expected = self._users.get(name, (b"unknown", b""))
        return hmac.compare_digest(_scrypt(password, salt), expected)


class TrustedHeader:
    """Believes a header that a proxy in front sets, such as X-Forwarded-User.

    create_app(app, authorize=TrustedHeader("X-Forwarded-User", proxy="10.0.0.5"))

    `proxy` is its address or network. A request from elsewhere is forbidden.
    """

    def __init__(self, header: str, *, proxy: str, access: Access = Access.FULL) -> None:
        self._header = header
        self._proxy = ip_network(proxy)
        self._access = access

    def __call__(self, request: Request) -> Access:
        """Return the access of the user whom the proxy names."""
        names = request.headers.getlist(self._header)
        if request.client is None or len(names) != 1 or not names[0].strip():
            return Access.FORBIDDEN
        try:
            is_proxy = ip_address(request.client.host) in self._proxy
        except ValueError:
            return Access.FORBIDDEN
        return self._access.named(names[0].strip()) if is_proxy else Access.FORBIDDEN


def hash_password(password: str) -> str:
    """Return the text that `BasicAuth` compares a password with."""
    salt = os.urandom(16)
    return f"scrypt:{salt.hex()}:{_scrypt(password, salt).hex()}"


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
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
