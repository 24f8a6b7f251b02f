"""PostgreSQL's messages: a byte for the kind, the length, the body. Standard library only.

Only the first messages of a client have no kind.
"""

import re
import struct
from collections import deque
from typing import NamedTuple

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
WORDS = {  # the purpose of a statement, by a word in it
    "claim": re.compile(rb"\bclaim(_further)?\("),
    "finish": re.compile(rb"\b(finish|retry)\("),
    "heartbeat": re.compile(rb"\bheartbeat\("),
    "defer": re.compile(rb"\bdefer\w*\("),
    "commit": re.compile(rb"\A\s*COMMIT\b", re.IGNORECASE),
}


class Frame(NamedTuple):
    kind: bytes  # empty for a message without a kind
    raw: bytes

    @property
    def body(self) -> bytes:
        return self.raw[len(self.kind) + 4 :]


class Cutter:
    """Cuts a stream into messages, however it was split on the way."""

    def __init__(self, *, is_client: bool) -> None:
        self._starting = is_client
        self._single = False  # the next byte answers a request for encryption
        self._rest = b""

    def expect_single(self) -> None:
        self._single = True

    def feed(self, data: bytes) -> list[Frame]:
        self._rest += data
        frames = []
        while (frame := self._next()) is not None:
            self._rest = self._rest[len(frame.raw) :]
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        rest = self._rest
        if self._single and rest:
            self._single = False
            return Frame(b"", rest[:1])
        head = 0 if self._starting else 1
        if len(rest) < head + 4:
            return None
        size = head + struct.unpack_from("!I", rest, head)[0]
        if len(rest) < size:
            return None
        if (
            self._starting
            and size >= 8
            and struct.unpack_from("!I", rest, 4)[0] not in (SSL_REQUEST, GSS_REQUEST)
        ):
            self._starting = False
        return Frame(rest[:head], rest[:size])


def asks_for_encryption(frame: Frame) -> bool:
    return (
        not frame.kind
        and len(frame.raw) == 8
        and struct.unpack_from("!I", frame.raw, 4)[0] in (SSL_REQUEST, GSS_REQUEST)
    )


def purpose(statement: bytes) -> str:
    return next((word for word, pattern in WORDS.items() if pattern.search(statement)), "other")


class Conversation:
    """Knows which statement the client is at, and which one the server's next message answers."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, str] = {}
        self._saying = "other"
        self._waiting: deque[str] = deque()

    @property
    def answered(self) -> str | None:
        """Return the purpose of the statement that the server is answering."""
        return self._waiting[0] if self._waiting else None

    def asks(self, frame: Frame) -> str | None:
        """Record a message of the client. Return the purpose of its statement, if it names one."""
        match frame.kind:
            case b"Q":
                self._waiting.append(purpose(frame.body))
                return self._waiting[-1]
            case b"P":
                name, text, _ = frame.body.split(b"\0", 2)
                self._saying = self._prepared[name] = purpose(text)
                return self._saying
            case b"B":
                _, name, _ = frame.body.split(b"\0", 2)
                self._saying = self._prepared.get(name, "other")
                return self._saying
            case b"S":
                self._waiting.append(self._saying)
        return None

    def replies(self, frame: Frame) -> None:
        """Record a message of the server."""
        if frame.kind == b"Z" and self._waiting:
            self._waiting.popleft()
