-- Returns how the jobs of a batch ended, for its callback: how many joined it, succeeded, failed,
-- were cancelled and were aborted. NULL for any other job. Volatile, so that it sees the batch that
-- the claim of the same statement has ended.
CREATE OR REPLACE FUNCTION batch_counts(p_job bigint, p_batch bigint) RETURNS bigint[]
LANGUAGE sql AS $$
    SELECT ARRAY[total, succeeded, failed, cancelled, aborted]
    FROM batches WHERE id = p_batch AND callback_id = p_job
$$;
