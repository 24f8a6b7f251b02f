"""Every statement of practice and every defect of today's libraries, with its number and its tests.

    python tests/locks/statements.py

rewrites COVERAGE.md from the markers of the tests.
"""

import re
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
COVERAGE = HERE / "COVERAGE.md"
MARKED = re.compile(
    r"^@pytest\.mark\.statement\(([^)]*)\)\n(?:async )?def (test_\w+)\(", re.MULTILINE
)

FAMILIES = {
    "B": ("The basic lock", """
1 value arbitrary while held, key deleted on release
2 value 1 by default
3 expiry optional, none by default
4 a stuck one can be broken by hand
5 no owner: anyone's release deletes it"""),
    "S": ("The smart lock", """
1 JSON with hostname, acquired_at, lock_id; more members allowed
2 a fresh lock_id each time
3 acquired_at an integer
4 released by an atomic compare-and-delete
5 robbed: the old holder's release fails, the robber keeps it
6 a host does not re-enter: its own name means a crash
7 another host's lock is not stolen; its age is an indicator, off by default
8 nothing is stolen from a living thread, task or process of this host
9 the host name is the caller's, or prefix and host name
10 workers of a host append the process name
11 malformed values are reported and never touched
12 policies differ by context: jobs are patient, requests go on without
13 one format on one key; SIGTERM leaves 60 seconds"""),
    "R": ("Redis locks in practice", """
1 threads, processes, machines
2 one holder
3 obtainable at last even when the holder crashed
4 time to live, waiting limit, extend
5 acquire with a waiting limit, work, release
6 expired and taken: the first one's release raises
7 acquired in one function, released in another
8 two holders of one static token can't be told apart, handles can
9 errors name lock, owner, age, ttl
10 if unable, stop, in one call
11 the same helper for recurring and ad-hoc callers
12 keys made from arguments
13 short ttls"""),
    "T": ("Locks with timeouts, semaphores", """
1 a crashed holder's lock frees itself
2 acquire_lock_with_timeout returns an identifier or False
3 128 random bits
4 lock_timeout is rounded up, never 0
5 a key without expiry is repaired by the next waiter
6 several repairers are harmless
7 a rightful holder is never shortened
8 value and expiry in one step
9 release is True if ours, False if lost
10 the key is lock: and the name
11 locks are advisory
12 four ways to fail: held too long, crash, several at once, both
13 limit N, the next is refused without waiting
14 expired permits leave first
15 first come, first served, even when a clock is behind
16 refresh is True while ours, else False and cleans up
17 50 threads, limit 3, never more than 3"""),
    "O": ("File locks", """
1 constructor
2 context manager
3 acquire with a timeout; 0 is one try
4 release of what is not ours
5 locked, by any process
6 getpid
7 attributes
8 defaults
9 the file: process id, name
10 stale: no such Python process
11 atomic creation
12 valid: retry every retry_period
13 invalid: overwrite, wait race_delay, confirm; after tries give up
14 a normal exit removes the file
15 release deletes the file
16 no delay when no invalid file exists
17 a slow system warns
18 a slow process does not break exclusion
19 a reused process id does not hide staleness
20 peers respect each other; removing the file frees the lock"""),
    "RD": ("Defects of redis-py's lock that ours must not have", """
1 a lost reply on acquire answers False while the key holds our token
2 a lost reply on release raises not-owned
3 another thread's release raises AttributeError
4 timeout 0 means no expiry, 0.0004 a server error
5 extend(-60) deletes the lock and returns True
6 two tasks that share a lock release each other's
7 a key of another type"""),
    "OD": ("Defects of openlock that ours must not have", """
1 a narrow terminal and a long path: two holders
2 an interpreter without python in its command line: two holders
3 no ps: a crash
4 two threads judging stale: two holders
5 release blocks while another thread waits
6 a forked child's exit deletes the parent's file
7 release deletes a successor's file"""),
    "J": ("With jobs", """
1 taken before the task runs, in one order, given back after the commit that stores its end
2 snooze keeps the place and charges no attempt
3 wait, skip, fail, proceed; a store that is away
4 losing one ends the run, and what it reports is refused
5 a later attempt takes over from an earlier one at once
6 names made of arguments
7 tasks without resources pay nothing"""),
    "P": ("Faults", """
1 lost replies
2 DEBUG SLEEP
3 CLIENT PAUSE
4 CLIENT KILL
5 SIGSTOP beyond the ttl
6 SIGKILL
7 fork
8 clock steps
9 FLUSHALL
10 a PID namespace
11 a terminated PostgreSQL session"""),
    "X": ("Rows of the reliability plan", """
44 Redis keys: odd names, wrong types, foreign values
45 file locks: odd paths, other users, file systems"""),
}  # fmt: skip


def statements() -> dict[str, str]:
    found = {}
    for family, (_, text) in FAMILIES.items():
        for line in text.strip().splitlines():
            number, _, wording = line.partition(" ")
            found[family + number] = wording
    return found


def find_tests() -> dict[str, list[str]]:
    """Return the tests of each number, which carry it in `@pytest.mark.statement("O5", "O6")`."""
    tests: dict[str, list[str]] = defaultdict(list)
    for file in sorted(HERE.rglob("test_*.py")):
        for numbers, name in MARKED.findall(file.read_text(encoding="utf-8")):
            for number in re.findall(r'"(\w+)"', numbers):
                tests[number].append(f"{file.relative_to(HERE)}: {name}")
    return tests


def coverage() -> str:
    tests = find_tests()
    lines = ["# What shows each statement", "", "Generated by `python tests/locks/statements.py`."]
    for family, (title, text) in FAMILIES.items():
        lines += ["", f"## {title}", ""]
        for line in text.strip().splitlines():
            number, _, wording = line.partition(" ")
            lines.append(f"* **{family}{number}** {wording}")
            lines += [f"  * `{test}`" for test in tests.get(family + number, ["nothing"])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    COVERAGE.write_text(coverage(), encoding="utf-8")
