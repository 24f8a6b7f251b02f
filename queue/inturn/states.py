"""The statuses of jobs and the states of lanes that people can filter by."""

WAITING = ("todo", "blocked", "limited", "scheduled", "pending")
TAKEN = ("claimed", "doing")  # by a worker
LIVE = (*WAITING, *TAKEN)
ENDED = ("succeeded", "failed", "cancelled", "aborted")
STATUSES = (*LIVE, *ENDED)

LANE_STATES = ("halted", "paused", "held", "retrying", "delayed", "idle")
