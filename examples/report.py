"""A shop, and every five seconds a report of what it sold: queue dev report:app"""

from datetime import UTC, datetime, timedelta

import psycopg

from inturn import App

app = App()

SOLD = """
SELECT count(*) FROM inturn.finished_jobs
WHERE task = 'report.sell' AND (args ->> 'timestamp')::bigint >= %s AND (args ->> 'timestamp')::bigint < %s
"""


# A customer comes every second: the sixth field.
@app.periodic(cron="* * * * * *", catch_up="all")
@app.task(lock="shop")
def sell(timestamp: int) -> None: ...


# It has the lock of the sales, so all that was sold before it is done when it starts. And it reports on the time until its
# instant, not until now: however late it runs, it says the same.
@app.periodic(cron="* * * * * */5", catch_up="all")
@app.task(lock="shop")
def report(timestamp: int) -> None:
    until = datetime.fromtimestamp(timestamp, UTC)
    since = until - timedelta(seconds=5)
    with psycopg.connect(app.connector.dsn) as connection:
        row = connection.execute(SOLD, [int(since.timestamp()), timestamp]).fetchone()
    print(f"{since:%H:%M:%S} to {until:%H:%M:%S} {row[0] if row else 0} sold", flush=True)
