"""The proxy cuts messages out of any stream, and matches each answer to its question."""

import struct

import pytest

from tests.chaos.frames import (
    SSL_REQUEST,
    Conversation,
    Cutter,
    Frame,
    asks_for_encryption,
    purpose,
)


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


SSL = struct.pack("!II", 8, SSL_REQUEST)
STARTUP = struct.pack("!II", 8 + 5, 3 << 16) + b"user\0"
CLIENT = SSL + STARTUP + message(b"Q", b"SELECT 1\0") + message(b"S") + message(b"X")
SERVER = b"N" + message(b"R", b"\0\0\0\0") + message(b"Z", b"I")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_is_cut_into_messages_however_it_was_chopped(size: int) -> None:
    cutter = Cutter(is_client=True)
    found = [
        frame for n in range(0, len(CLIENT), size) for frame in cutter.feed(CLIENT[n : n + size])
    ]
    assert [frame.kind for frame in found] == [b"", b"", b"Q", b"S", b"X"]
    assert b"".join(frame.raw for frame in found) == CLIENT
    assert [asks_for_encryption(frame) for frame in found] == [True, False, False, False, False]


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_the_answer_to_a_request_for_encryption_is_a_single_byte(size: int) -> None:
    cutter = Cutter(is_client=False)
    cutter.expect_single()
    found = [
        frame for n in range(0, len(SERVER), size) for frame in cutter.feed(SERVER[n : n + size])
    ]
    assert [(frame.kind, frame.raw[:1]) for frame in found] == [
        (b"", b"N"),
        (b"R", b"R"),
        (b"Z", b"Z"),
    ]


def asked(talk: Conversation, *messages: bytes) -> None:
    for raw in messages:
        talk.asks(Frame(raw[:1], raw))


def answered(talk: Conversation, *kinds: bytes) -> list[str | None]:
    found = []
    for kind in kinds:
        found.append(talk.answered)
        talk.replies(Frame(kind, message(kind)))
    return found


PARSE = message(b"P", b"one\0SELECT * FROM inturn.claim($1)\0\0\0")


def test_a_statement_that_was_prepared_is_known_when_it_is_bound_again() -> None:
    talk = Conversation()
    asked(talk, PARSE, message(b"S"), message(b"P", b"\0SELECT 1\0\0\0"), message(b"S"))
    asked(talk, message(b"B", b"\0one\0" + b"\0" * 6), message(b"E", b"\0" * 5), message(b"S"))
    assert answered(talk, b"Z", b"1", b"Z", b"D", b"C", b"Z") == [
        "claim",
        "other",
        "other",
        "claim",
        "claim",
        "claim",
    ]


def test_statements_in_a_pipeline_are_answered_in_their_order() -> None:
    talk = Conversation()
    asked(talk, message(b"Q", b"COMMIT\0"), message(b"Q", b"SELECT inturn.finish(1)\0"))
    assert answered(talk, b"C", b"Z", b"T", b"Z") == ["commit", "commit", "finish", "finish"]
    assert talk.answered is None


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        (b'SELECT * FROM "inturn".claim_further($1)', "claim"),
        (b'FROM "inturn".finish($1, 2)', "finish"),
        (b'SELECT id FROM "inturn".retry($1)', "finish"),
        (b"commit", "commit"),
        (b"SELECT 'the COMMIT'", "other"),
        (b"SELECT inturn.heartbeat($1)", "heartbeat"),
        (b"SELECT id, is_new FROM inturn.defer_jobs($1)", "defer"),
    ],
)
def test_the_text_of_a_statement_tells_its_purpose(statement: bytes, word: str) -> None:
    assert purpose(statement) == word
