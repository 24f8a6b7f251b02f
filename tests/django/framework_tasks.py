"""Tasks of Django's own framework. Its settings must name a backend before this is imported."""

from typing import Any

from django.utils.module_loading import import_string

from inturn.django.tasks_api import PACKAGE

task: Any = import_string(f"{PACKAGE}.task")
RAN: list[Any] = []


class SoldOut(Exception):
    """There is nothing left to ship."""


@task
def add(a: int, b: int = 0) -> int:
    RAN.append((a, b))
    return a + b


@task(priority=7, queue_name="mail")
async def send(to: str) -> dict[str, str]:
    return {"sent": to}


@task(takes_context=True)
def look(context: Any) -> tuple[str, int, str]:
    result = context.task_result
    return result.id, context.attempt, str(result.status)


@task
def fail() -> None:
    raise SoldOut("no parcels\n\nDETAIL: at all")


@task
def give_what_is_no_json() -> object:
    return object()


@task(backend="patient")
def fail_once() -> str:
    RAN.append("try")
    if len(RAN) == 1:
        raise SoldOut
    return "at last"


@task(backend="patient", takes_context=True)
async def fail_once_async(context: Any) -> int:
    if context.attempt == 1:
        raise SoldOut
    return int(context.attempt)
