"""A shop that reports its sales every five seconds: queue dev report:app"""

from datetime import UTC, datetime, timedelta

import psycopg

from inturn import App

app = App()

SOLD = """
SELECT count(*) FROM inturn.finished_jobs
WHERE task = 'report.sell'
  AND (args ->> 'timestamp')::bigint >= %s AND (args ->> 'timestamp')::bigint < %s
"""


# A customer comes every second: the sixth field of the expression is the second.
@app.periodic(cron="* * * * * *", catch_up="all")
@app.task(lock="shop")
def sell(timestamp: int) -> None: ...


# It shares the lock of the sales, so all earlier sales are done when it starts. It reports on the
# time before its own instant, not before now, so it says the same however late it runs.
@app.periodic(cron="* * * * * */5", catch_up="all")
@app.task(lock="shop")
def report(timestamp: int) -> None:
    until = datetime.fromtimestamp(timestamp, UTC)
    since = until - timedelta(seconds=5)
    with psycopg.connect(app.connector.dsn) as connection:
        row = connection.execute(SOLD, [int(since.timestamp()), timestamp]).fetchone()
    print(f"{since:%H:%M:%S} to {until:%H:%M:%S} {row[0] if row else 0} sold", flush=True)
