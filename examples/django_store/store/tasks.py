from inturn.django import app
from store.models import Order


@app.task
def ship(order: int) -> None:
    changed = Order.objects.filter(pk=order).update(shipped=True)
    print(f"order {order} is on its way" if changed else f"there is no order {order}", flush=True)
