-- Batches that may have been left open by mistake, the first opened first, at most 1,000: they have
-- been open for more than an hour, and no job has joined them for as long. These batches never end,
-- so their callbacks never run.
--
-- Bounded: it looks at the first 1,000 batches that have not ended, since each takes some pages.
CREATE OR REPLACE VIEW forgotten_batches AS
SELECT batch.id, batch.name, batch.opened_at, batch.callback_id
FROM (SELECT batch_id FROM batch_gates ORDER BY batch_id LIMIT 1000) AS gate
CROSS JOIN LATERAL (
    SELECT batches.id, batches.name, batches.opened_at, batches.closed_at, batches.callback_id
    FROM batches WHERE batches.id = gate.batch_id LIMIT 1
) AS batch
WHERE batch.closed_at IS NULL AND batch.opened_at < clock() - interval '1 hour'
    AND NOT EXISTS (
        SELECT FROM batch_events AS event
        WHERE event.batch_id = batch.id AND (event.event = 'closed'
            OR event.event = 'joined' AND event.at > clock() - interval '1 hour'))
    -- The newest job that joined it, live or finished.
    AND (
        SELECT jobs.created_at > clock() - interval '1 hour' FROM jobs
        WHERE jobs.batch_id = batch.id AND jobs.batch_id IS NOT NULL
        ORDER BY jobs.id DESC LIMIT 1
    ) IS NOT TRUE
    AND (
        -- Whole days, so that the first job it meets is the newest.
        SELECT job.created_at > clock() - interval '1 hour' FROM finished_jobs AS job
        WHERE job.batch_id = batch.id AND job.batch_id IS NOT NULL
            AND job.finished_at >= date_trunc('day', clock() - interval '1 hour', 'UTC')
        ORDER BY job.id DESC LIMIT 1
    ) IS NOT TRUE
ORDER BY batch.opened_at LIMIT 1000;

COMMENT ON VIEW forgotten_batches IS
    'Open batches that no job has joined for an hour, perhaps left open by mistake.';
COMMENT ON COLUMN forgotten_batches.id IS 'Its number.';
COMMENT ON COLUMN forgotten_batches.name IS 'Its name; several batches may have the same one.';
COMMENT ON COLUMN forgotten_batches.opened_at IS 'When it was opened.';
COMMENT ON COLUMN forgotten_batches.callback_id IS 'The job that runs at its end; NULL: none.';
