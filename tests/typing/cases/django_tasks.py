"""What type checkers know of a task of Django's."""

from inturn.django.backend import InturnTask


def change(task: InturnTask) -> None:
    task.using(lock="customer:ann", on_retry="hold", priority=3, queue_name="mail")
    task.using(look="customer:ann")  # error
    task.using(on_retry="never")  # error
    task.using(priority="high")  # error
