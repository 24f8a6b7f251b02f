"""`python -m inturn.cli` does the same as `queue`."""

from inturn.cli import main

main()
