"""Types that columns of several tables share, and the metadata that all tables belong to."""

from sqlalchemy import DateTime, Enum, MetaData, Text

from inturn.states import ENDED

metadata = MetaData()

job_status = Enum(
    "todo",
    "blocked",
    "limited",
    "paused",
    "scheduled",
    "pending",
    "claimed",
    "doing",
    *ENDED,
    name="job_status",
)
lane_state = Enum("held", "retrying", "paused", "halted", "delayed", "idle", name="lane_state")
retry_policy = Enum("hold", "release", name="retry_policy")
parent_policy = Enum("cancel", "go", "hold", name="parent_policy")
failure_policy = Enum("continue", "halt", name="failure_policy")
batch_event = Enum("joined", "closed", "look", *ENDED, name="batch_event")
pause_kind = Enum("queue", "task", name="pause_kind")
moment = DateTime(timezone=True)
key = Text(collation="C")
