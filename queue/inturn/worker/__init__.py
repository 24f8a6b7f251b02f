"""The worker: claims jobs, runs them, and says how they ended.

One loop owns one connection and does one thing at a time on it: report what has ended (and take over what the lanes hand
back), else claim what the free slots can run, else sleep. So everything that ends while a call is under way goes out with
the next one, in one batch; there is no timer and no lock.

It sleeps until it is woken (a notification, the end of a job), the next scheduled job is due, or the poll interval has
passed, which is the net under lost notifications. Beside the loop stand a listener, and two threads that go on while user code
blocks the event loop: the heartbeat, and upkeep, which rescues the jobs of dead workers. Each has a connection of its own.

When a reply was lost, the worker asks the server what it owns, and gives back what it does not have in hand. When it was taken for
dead, it registers anew. What it still runs is fenced off, and told to abort.
"""

from inturn.worker.options import Options
from inturn.worker.worker import Worker, run

__all__ = ["Options", "Worker", "run"]
