"""Why a lane does not go on, in a few words."""

from inturn.formatting import last_line
from inturn.model import Lane


def get_reason(lane: Lane) -> str:
    if lane.failed_job_id is not None and lane.last_error:
        return last_line(lane.last_error)
    if lane.waits_for is not None:
        return f"waits for lane {lane.waits_for}"
    if lane.readers is not None:
        return f"shared by {lane.readers:,}"
    if lane.job_status == "claimed":
        return "claimed: its worker runs other jobs first"
    return lane.stop_reason or last_line(lane.last_error)
