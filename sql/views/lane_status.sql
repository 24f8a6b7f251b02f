-- One row for each lane that is held or reserved: who has it, since when, and the job that runs or goes next.
CREATE OR REPLACE VIEW lane_status AS
SELECT lanes.lock, lanes.state, lanes.since, coalesce(lanes.job_id, running.id) AS job_id,
       workers.name AS worker, workers.heartbeat_at
FROM lanes
LEFT JOIN workers ON workers.id = lanes.worker_id
LEFT JOIN jobs AS running ON running.status = 'doing' AND running.worker_id = lanes.worker_id AND running.lock = lanes.lock;

COMMENT ON VIEW lane_status IS 'Lanes that are held by a worker or reserved for a retry.';
COMMENT ON COLUMN lane_status.job_id IS 'The job that runs; in a retrying lane the job that goes next.';
