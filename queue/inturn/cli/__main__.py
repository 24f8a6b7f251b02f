"""`python -m inturn.cli` is `queue`."""

from inturn.cli import main

main()
