from django.db import transaction

from store.models import Order
from store.tasks import ship


class SoldOut(Exception):
    """There is nothing left to ship."""


def buy(customer: str, *, in_stock: bool = True) -> Order:
    """The order and its job come into being together, or neither does. A customer's parcels leave in the order of the orders."""
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        ship.configure(lock=f"customer:{customer}").defer(order=order.pk)
        if not in_stock:
            raise SoldOut
    return order
