"""How long a call may stay unanswered. `session` watches the calls.

A long statement and a dead connection look the same to a client: the server is silent. A plain
timeout would end the long statement too. After some silence, the client therefore asks the server
over a second connection whether it is still working on the call, identified by the session's
process id. Behind a pooler that id is made up and the answer is "unknown"; only then does a timeout
apply.
"""

import os
from dataclasses import dataclass, field
from typing import Any, Literal, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

Verdict = Literal["works", "unknown", "idle"]

LONGEST_PAUSE = 30.0  # seconds between two questions
# Seconds for an answer that was in transit when the server was asked, and for each step of a
# cancellation.
GRACE = 0.5
ASK_STATE: LiteralString = "SELECT state FROM pg_stat_activity WHERE pid = %s"
AT_WORK = ("active", "fastpath function call")
# The start of a server's refusal, in the languages that translate the word.
FATAL = ("FATAL", "ВАЖНО", "致命错误")
SECRET = ("disabled", None)  # track_activities is off, or the session belongs to another user
# Each session starts with this. Joins or arrays would take the server twice as long.
SETTLE: LiteralString = "SELECT pg_backend_pid() = %s"
SETTLE_ALL: LiteralString = ", CASE WHEN pg_backend_pid() = %s THEN concat({}) END"
# Not all servers have all settings.
SET: LiteralString = """
    CASE WHEN current_setting(%s, true) IS NOT NULL THEN set_config(%s, %s, false) END"""
SET_ON_LINUX: LiteralString = """
    CASE WHEN version() LIKE '%%linux%%' AND current_setting(%s, true) IS NOT NULL
         THEN set_config(%s, %s, false) END"""
ONLY_ON_LINUX = "client_connection_check_interval"

# With these, a vanished peer is detected after about ten seconds, even on a connection that only
# listens.
KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
SHORTEST_CONNECT = 2  # seconds; psycopg has no shorter limit


@dataclass(slots=True)
class Terms:
    """The address, deadlines and settings of the connections for one purpose.

    ask_after: the seconds of silence after which the server is asked over another connection.
    give_up_after: the limit for silence in seconds, where the server cannot tell.
    settle_within: the limit in seconds for the first statement.
    settings: the settings of each new session. They are not set behind a pooler, where the
    session's next client would inherit them.
    failure: why the last attempt to make or use a connection failed.
    """

    address: str = field(repr=False)  # with its password
    ask_after: float | None = None
    give_up_after: float | None = None
    settle_within: float = LONGEST_PAUSE
    settings: dict[str, str] = field(default_factory=dict)
    failure: BaseException | None = None
    is_question: bool = False

    def settle(self, pid: int) -> tuple[LiteralString, list[Any]]:
        """Return the statement that applies the settings, unless a pooler made up the id.

        Its first column is False in that case.
        """
        if not self.settings:
            return SETTLE, [pid]
        calls = [SET_ON_LINUX if name == ONLY_ON_LINUX else SET for name in self.settings]
        parameters = [each for name, value in self.settings.items() for each in (name, name, value)]
        return SETTLE + SETTLE_ALL.format(",".join(calls)), [pid, pid, *parameters]

    def question(self, info: psycopg.ConnectionInfo) -> tuple[str, "Terms"]:
        """Return the address at which to ask about a session, and the terms for asking.

        The address may name several servers; this one names the server that has the session.
        """
        parts: dict[str, Any] = {**conninfo_to_dict(self.address), "target_session_attrs": "any"}
        parts |= {"host": info.host or None, "hostaddr": info.hostaddr or None, "port": info.port}
        patience = self.ask_after or LONGEST_PAUSE
        parts["connect_timeout"] = max(SHORTEST_CONNECT, round(patience))
        return make_conninfo(
            "", **{name: value for name, value in parts.items() if value is not None}
        ), Terms("", give_up_after=patience, is_question=True)


def with_deadlines(dsn: str, timeout: float) -> str:
    """Return the address with limits for connecting and for TCP.

    Limits that the address sets itself stay.
    """
    parts = conninfo_to_dict(dsn)
    if "service" in parts or os.environ.get("PGSERVICE"):
        return dsn  # the service file may set limits, which the address would override
    limits = {"connect_timeout": max(SHORTEST_CONNECT, round(timeout)), **KEEPALIVE}
    if os.environ.get("PGCONNECT_TIMEOUT"):
        del limits["connect_timeout"]
    return make_conninfo(
        dsn, **{name: value for name, value in limits.items() if name not in parts}
    )


def judge_state(rows: list[Any], *, is_direct: bool) -> Verdict:
    if not is_direct:
        return "unknown"
    state = rows[0][0] if rows else "gone"
    if state in SECRET:
        return "unknown"
    return "works" if state in AT_WORK else "idle"


def judge_refusal(error: psycopg.Error) -> Verdict:
    """Return "unknown" if the server refused the question, and raise if it did not answer.

    A server that refuses is alive and may be working on the call.
    """
    if any(word in str(error) for word in FATAL):
        return "unknown"
    raise psycopg.OperationalError(
        f"no answer, and the server cannot be queried: {str(error).partition(chr(10))[0]}"
    ) from error
