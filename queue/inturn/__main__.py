"""The script `queue`, which says what to install if the command line is missing.

`python -m inturn` does the same.
"""

import sys
from importlib.util import find_spec

from inturn.errors import MissingExtra


def main(name: str | None = None) -> None:
    """Run the command line, or exit with one line that names its extra.

    `name` is what people type to run it, by default the name of the script.
    """
    if any(find_spec(package) is None for package in ("click", "rich")):
        sys.exit(f"error: {MissingExtra('The command line', 'cli')}")
    from inturn import cli

    cli.main(name=name)


if __name__ == "__main__":
    main(name="python -m inturn")
