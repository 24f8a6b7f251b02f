"""What a type checker knows of the options of a job: the one list of them for `configure`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, TypedDict

OnRetryName = Literal["hold", "release"]
OnFailureName = Literal["continue", "halt"]


class JobOptions(TypedDict, total=False):
    """For wrappers of your own: `def urgent(task: Task[P, R], **options: Unpack[JobOptions]) -> Deferrer[P]`."""

    lock: str | None
    schedule_at: datetime | None
    schedule_in: timedelta | Mapping[str, float] | None
    queue: str | None
    priority: int | None
    on_retry: OnRetryName | None
    on_failure: OnFailureName | None
    connection: object
