"""What `defer` returns."""

from typing import Any


class DeferredJob(int):
    """The id of a job that waits now: an int like any other, that knows more.

        job = write.configure(queueing_lock="letters", on_conflict="skip").defer(letter="a")
        if not job.is_new:
            print(f"job {job} was there before, and stands for this one")

    Where it travels (pickled, as JSON, to the database) it is the plain number.
    """

    is_new: bool = True  # False: it waited already under the same queueing lock
    owner: Any = None  # the app that it was deferred through

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def deferred_by(owner: object) -> type[DeferredJob]:
    """The class of what is deferred through one app. It knows the app, so that not each job of a large batch need to."""
    return type("DeferredJob", (DeferredJob,), {"owner": owner, "__module__": __name__})
