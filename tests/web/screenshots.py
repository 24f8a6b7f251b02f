"""Make the pictures of docs/: `make screenshots`. It needs Chromium.

A queue of a small shop, as real workers leave it, so that each picture shows what people see.
"""

import linecache
import sys
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from playwright.sync_api import sync_playwright

from inturn.testing import Databases
from inturn.web import Access, create_app
from tests.waiting import wait_until
from tests.web.browser.chromium import MISSING, find_chromium
from tests.web.seed import LIMIT, Shop
from tests.web.serving import serve

FOLDER = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 120_000  # bytes of a picture
FILE = "/srv/shop.py"
PAY = """\
def pay(order: int) -> None:
    if order == 5:
        raise RuntimeError("card declined")
"""


HISTORY = """
INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry, on_failure,
    priority, attempts, queue, task, args, errors)
SELECT 1000000 + n, at - interval '2 s', at - interval '1 s' * (random() + 0.5), at,
    CASE WHEN n % 97 = 0 THEN 'failed' ELSE 'succeeded' END::job_status, 'hold', 'continue', 0, 1,
    'default', 'shop.send', '{}', '[]'
FROM generate_series(1, 6000) AS n
CROSS JOIN LATERAL (SELECT now() - interval '24 hours' * n / 6000 AS at) AS ended
WHERE random() < 0.6 + 0.4 * sin(extract(epoch FROM at) / 86400 * 2 * pi() - pi() / 2)
"""


class Shot(NamedTuple):
    """A picture: its name, the page, the theme, the size, and whether the bar is in it."""

    name: str
    path: str
    theme: Any = "light"
    width: int = 1280
    height: int = 800
    has_bar: bool = True


def fill(shop: Shop) -> int:
    """Leave lanes in several states, and return a job that waits for another."""
    for number in range(60):
        shop.send.configure(lock=f"customer:{number % 6}").defer(to="ann", number=number)
    for number in range(8):
        shop.send.configure(lock="order:4711").defer(number=number)
    for order in (4711, 4712):
        for item in range(6):
            shop.charge.configure(lock=f"order:{order}", on_retry="hold").defer(item=item)
    halt(shop)
    for item in range(5):
        shop.ship.configure(lock="parcel:17").defer(item=item)
    shop.work(concurrency=2)
    for day in range(4):
        shop.export.configure(lock="export:sales").defer(day=day)
    shop.app.lanes.pause("customer:3", reason="address is being corrected", by="ana")
    for number in range(9):
        shop.send.configure(lock="customer:3").defer(to="ann", number=number)
    return int(shop.send.configure(lock="order:4711").defer(to="ann"))


def add_history(dsn: str) -> None:
    """Let jobs have ended on the day before, more of them at noon than at night."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute(
            "SELECT set_config('inturn.clock', (now() - '1 day'::interval)::text, false)"
        )
        connection.execute("SELECT prepare_history(1)")
        connection.execute("RESET inturn.clock")
        connection.execute(HISTORY)
        while connection.execute("SELECT roll_up(1000)").fetchone() == (True,):
            pass


def halt(shop: Shop) -> None:
    """Leave the lane of the example on the first page, with more jobs."""
    linecache.cache[FILE] = (len(PAY), None, PAY.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {}
    exec(compile(PAY, FILE, "exec"), names)  # noqa: S102 (the traceback names no file of this machine)
    pay = shop.app.task(name="shop.pay", on_failure="halt")(names["pay"])
    for order in range(1, 8):
        pay.configure(lock="customer:ann").defer(order=order)


def main() -> None:
    path = find_chromium()
    if path is None:
        sys.exit(MISSING)
    FOLDER.mkdir(exist_ok=True)
    with Databases() as databases, databases.clone() as dsn:
        shop = Shop(dsn)
        with shop.app.open():
            add_history(dsn)
            job = fill(shop)
            site = create_app(shop.app, authorize=lambda _: Access.FULL.named("ana"))
            with shop.working(concurrency=2, name="web1:4711"), serve(site) as address:
                wait_until(lambda: shop.app.job_manager.list_jobs(status="doing"), LIMIT)
                take(path, address, job)


def take(chromium: str, address: str, job: int) -> None:
    """Make each picture."""
    shots = [
        Shot("overview", "/"),
        Shot("lanes", "/lanes"),
        Shot("lane", "/lane?lock=order:4711"),
        Shot("job", f"/jobs/{job}"),
        Shot("lane-dark", "/lane?lock=order:4711", "dark"),
        Shot("lanes-phone", "/lanes", "light", 360, 740),
        *(
            Shot(name, "/lane?lock=customer:ann", theme, 720, 645, has_bar=False)
            for name, theme in (("lane-halted", "light"), ("lane-halted-dark", "dark"))
        ),
    ]
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        for shot in shots:
            size: Any = {"width": shot.width, "height": shot.height}
            page = browser.new_page(viewport=size, color_scheme=shot.theme)
            page.goto(address + shot.path)
            page.locator("#status[data-state=live]").wait_for()
            file = FOLDER / f"{shot.name}.png"
            bar: int = page.locator("header.top").evaluate("each => each.offsetHeight")
            clip: Any = {"x": 0, "y": 0 if shot.has_bar else bar, **size}
            page.screenshot(path=file, full_page=True, clip=clip)
            print(f"{file.name}: {file.stat().st_size:,} bytes")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
