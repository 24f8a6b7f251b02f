"""What the quick tests cost, in counts that repeat on any machine, beside what is written down.

A run fails if it starts a tenth more processes, or makes the servers write a tenth more, than
`tests/weight.json` says. `make test WEIGH=1` writes that file. Transactions are not counted: on a
busy machine, workers look more often before a test is over.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import psycopg

RECORD = Path(__file__).with_name("weight.json")
ALLOWED = 1.1
WRITTEN = """
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint / 1000000
"""

spent: Counter[str] = Counter()  # by this process, or by all processes of a run


def count_processes() -> None:
    """Count the processes that are started from now on."""
    sys.addaudithook(_note)


def _note(event: str, _: object) -> None:
    if event == "subprocess.Popen":
        spent["processes"] += 1


def weigh_server(dsn: str) -> None:
    """Add what a server has done since it was created. Call this before it ends."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((megabytes,),) = connection.execute(WRITTEN).fetchall()
    spent["megabytes of WAL"] += megabytes


def compare(spent: Mapping[str, int], record: Mapping[str, int]) -> str:
    """Return what costs more than the record allows, or an empty text."""
    return ", ".join(
        f"{spent.get(what, 0)} {what} instead of {least}"
        for what, least in record.items()
        if spent.get(what, 0) > least * ALLOWED
    )


def read_record() -> dict[str, int]:
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def write_record() -> None:
    RECORD.write_text(json.dumps(spent, indent=2, sort_keys=True) + "\n", encoding="utf-8")
