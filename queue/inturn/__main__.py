"""`python -m inturn` does the same as `queue`."""

from inturn.command import main

main(name="python -m inturn")
