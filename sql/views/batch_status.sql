-- Batches, and how their jobs have ended. Adds the events that no claim has looked at yet to what
-- claims have counted.
CREATE OR REPLACE VIEW batch_status AS
SELECT batches.id, batches.name,
       CASE WHEN batches.ended_at IS NOT NULL THEN 'ended'
            WHEN now_at.closed_at IS NOT NULL THEN 'closed'
            ELSE 'open' END AS state,
       now_at.total,
       now_at.total - now_at.succeeded - now_at.failed - now_at.cancelled - now_at.aborted
           AS remaining,
       now_at.succeeded, now_at.failed, now_at.cancelled, now_at.aborted, batches.opened_at,
       now_at.closed_at, batches.ended_at, batches.callback_id
FROM batches
CROSS JOIN LATERAL (
    SELECT coalesce(batches.closed_at, min(at) FILTER (WHERE event = 'closed')) AS closed_at,
        batches.total + coalesce(sum(jobs) FILTER (WHERE event = 'joined'), 0)::bigint AS total,
        batches.succeeded + coalesce(sum(jobs) FILTER (WHERE event = 'succeeded'), 0)::bigint
            AS succeeded,
        batches.failed + coalesce(sum(jobs) FILTER (WHERE event = 'failed'), 0)::bigint AS failed,
        batches.cancelled + coalesce(sum(jobs) FILTER (WHERE event = 'cancelled'), 0)::bigint
            AS cancelled,
        batches.aborted + coalesce(sum(jobs) FILTER (WHERE event = 'aborted'), 0)::bigint AS aborted
    FROM batch_events WHERE batch_id = batches.id
) AS now_at;

COMMENT ON VIEW batch_status IS 'Batches, and how their jobs have ended.';
COMMENT ON COLUMN batch_status.id IS 'Its number.';
COMMENT ON COLUMN batch_status.name IS 'Its name; several batches may have the same one.';
COMMENT ON COLUMN batch_status.state IS
    'open: it cannot end until it is closed; closed: it ends once no jobs are left; ended: its '
    'callback may run.';
COMMENT ON COLUMN batch_status.total IS 'Jobs that have joined it.';
COMMENT ON COLUMN batch_status.remaining IS 'Those that have not ended.';
COMMENT ON COLUMN batch_status.succeeded IS 'How many have succeeded.';
COMMENT ON COLUMN batch_status.failed IS 'How many have failed.';
COMMENT ON COLUMN batch_status.cancelled IS
    'How many were cancelled, expired or deleted before they started.';
COMMENT ON COLUMN batch_status.aborted IS 'How many were aborted while they ran.';
COMMENT ON COLUMN batch_status.opened_at IS 'When it was opened.';
COMMENT ON COLUMN batch_status.closed_at IS 'When it was closed; NULL: not yet.';
COMMENT ON COLUMN batch_status.ended_at IS 'When its last job was counted; NULL: not yet.';
COMMENT ON COLUMN batch_status.callback_id IS 'The job that runs at its end; NULL: none.';
