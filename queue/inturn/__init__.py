"""An ordered job queue on PostgreSQL. Jobs that share a lock run in turn; the rest run in parallel.

An **App** knows the database and collects **tasks**, which are functions that can run later and
elsewhere. **Deferring** a task inserts a **job** in a transaction, which can be your own.
**Workers** claim jobs and run them. Jobs with the same `lock` form a **lane**, whatever their queue
or task. A lane runs one job at a time, by priority and then in the order in which the jobs were
deferred.

    from inturn import App

    app = App("postgresql://…")

    @app.task(queue="letters")
    def write(letter: str) -> None: ...

    with app.open():
        write.configure(lock="alphabet").defer(letter="a")

Then start a worker: `queue -a module:app worker`. Each state change of a job is one SQL function in
`sql/functions`. Each file begins with what its function promises.
"""

from inturn.lazy import LazyNames

# This way `queue --help`, or a typo on the command line, does not wait for the database driver.
_names = LazyNames(__name__, __file__)

__all__ = _names.sort()
__dir__ = _names.list_all


def __getattr__(name: str) -> object:
    if name == "__version__":  # looked up on demand: that takes longer than this import
        from importlib.metadata import version

        return version(__name__)
    return _names.load(name)
