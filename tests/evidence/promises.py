"""Every promise by its name, with the one rule that judges it."""

from tests.evidence.finding import Rule
from tests.evidence.rules import batches, jobs, lanes, processes, waiting

PROMISES: dict[str, Rule] = {
    "overlap": lanes.exclusion,
    "order": lanes.order,
    "overtaken": lanes.overtaken,
    "fence": lanes.fences_rise,
    "fence given twice": lanes.fences_differ,
    "paused": lanes.pauses,
    "lost": jobs.lost,
    "ghost": jobs.made_up,
    "half a call": jobs.half_a_call,
    "one id": jobs.shared_id,
    "repeated": jobs.repeated,
    "attempts": jobs.attempts,
    "ended twice": jobs.ended_once,
    "wrong end": jobs.ends,
    "stale end": jobs.stale_end,
    "cancelled unasked": jobs.cancelled_unasked,
    "cancelled and started": jobs.cancelled_then_started,
    "effect": jobs.effects_in_order,
    "no effect": jobs.effects_happen,
    "too many": waiting.slots,
    "too often": waiting.rates,
    "early": waiting.parents_end_first,
    "against": waiting.parents_succeed,
    "late": waiting.expiry,
    "hasty": batches.callback_last,
    "miscounted": batches.callback_told,
    "starved": batches.groups_take_turns,
    "a process ended": processes.processes_stay,
    "never ended": processes.runs_end,
    "stuck": processes.nothing_left,
    "problem": processes.harness_content,
    "standstill": processes.moves,
}
