"""`manage.py queue`: the command line of inturn, with the project's app."""

from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from inturn.cli import main

APP = "inturn.django:app"
ENTRY = ("-m", "django", "queue")  # sets up Django with the settings that the environment names


class Command(BaseCommand):
    help = "The job queue: workers, jobs, lanes. See manage.py queue --help"
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command line as typed. Django's parser would take some of our options."""
        main(argv[2:], name=f"{argv[0]} {argv[1]}", app=APP, entry=ENTRY)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        """Run the command line for `call_command("queue", "worker", "--one-shot")`."""
        main(arguments, name="queue", app=APP, entry=ENTRY)
