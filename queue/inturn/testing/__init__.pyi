# The only list of the public names. Type checkers read it, and __init__.py looks up here which
# module to import when a name is first used.

from inturn.testing.databases import Databases as Databases
from inturn.testing.harness import Queue as Queue
from inturn.testing.jobs import Seen as Seen
from inturn.testing.recording import Run as Run

__all__: list[str]
