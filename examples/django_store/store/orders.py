from django.db import transaction

from store.models import Order
from store.tasks import ship


class SoldOut(Exception):
    """There is nothing left to ship."""


def buy(customer: str, *, in_stock: bool = True) -> Order:
    """Create an order and its job in one transaction, so that neither exists without the other.

    A customer's parcels leave in the order in which they were bought.
    """
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        order.job_id = ship.configure(lock=f"customer:{customer}").defer(order=order.pk)
        order.save()
        if not in_stock:
            raise SoldOut
    return order
