-- How many jobs wait in each queue, since when, and which queues does no worker serve?
SELECT queue, runnable, inturn.clock() - runnable_since AS waiting, blocked, scheduled, claimed,
       doing, workers, more AS or_more
FROM inturn.queue_status
ORDER BY runnable_since NULLS LAST, queue;
