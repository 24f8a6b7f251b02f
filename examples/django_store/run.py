"""A Django store with its own PostgreSQL. Run it with `python examples/django_store/run.py`."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import django

from inturn.embedded import Server

HERE = Path(__file__).parent


def manage(*arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=HERE, check=True)


def main() -> None:
    with Server() as server:
        os.environ |= {"INTURN_DSN": server.dsn(), "DJANGO_SETTINGS_MODULE": "settings"}
        manage("migrate", "--verbosity=0")
        django.setup()

        from store.models import Order
        from store.orders import SoldOut, buy

        for customer in ("ann", "bob", "ann"):
            buy(customer)
        with contextlib.suppress(SoldOut):
            buy("eve", in_stock=False)  # rolled back together with its job
        manage("queue", "worker", "--one-shot")
        shipped = Order.objects.filter(shipped=True).count()
        print(f"{shipped} of {Order.objects.count()} orders are shipped")


if __name__ == "__main__":
    main()
