"""The worker: it claims jobs, runs them, and reports how they ended.

One loop owns two connections. On the first, it makes one call at a time, usually to report the jobs
that have ended and to start the jobs that their lanes hand over. All jobs that end during a call
are reported by the next one, in one batch. On the second, it claims as many jobs as it has room
for, while it reports. If jobs have ended, it claims only if slots would run dry, or if due jobs
have waited for a second. If there is nothing to report or to claim, it waits. There is no timer and
no lock.

The loop waits for a notification, the end of a job, the next scheduled job, or the poll interval,
which finds jobs whose notification was lost. Beside the loop run a listener and threads that
continue while user code blocks the event loop: the heartbeat, the scheduler of periodic tasks, and
maintenance, which rescues the jobs of dead workers. Each has its own connection.

If a reply was lost, the worker asks the server which jobs it owns, and puts back those that it does
not have in hand. It never asks while a claim is in flight. If others declared it dead, it registers
again. The jobs that it still runs are fenced off and asked to abort.

Read it in this order:

    worker          the lifetime: start, stop, abort, leave
    state           what the parts share
    loop            what to do next: recover from what went wrong, report, claim, or wait
    claiming        when to claim, and how many
    running_jobs    the attempts in hand, in `slots`; each is an `attempt`
    reporting       how jobs ended
    failures        how long to wait after a call that failed
    maintenance, heartbeat, scheduler, listener
                    the services beside the loop, each with a `run_once`
"""

from inturn.worker.options import Options, WorkerOptions
from inturn.worker.worker import Worker, run

__all__ = ["Options", "Worker", "WorkerOptions", "run"]
