-- heed_pauses: makes a claim skip paused tasks and queues. No worker serves a paused queue.
CREATE OR REPLACE FUNCTION heed_pauses(INOUT r claim_round)
LANGUAGE plpgsql AS $$
BEGIN
    r.paused := ARRAY(SELECT task FROM paused_tasks);
    IF EXISTS (SELECT FROM paused_queues) THEN
        r.queues := leave_out_paused(r.queues);
        r.served := r.queues;
    END IF;
END $$;
