"""`python -m inturn` does the same as `queue`."""

from inturn.cli import main

main(name="python -m inturn")
