-- Records that a worker is alive, for how long its event loop has been blocked, whether it hears
-- notifications (NULL: it wants none), and why the database refuses its other calls (NULL: it does
-- not). A worker that is stopping serves no queue from then on. Returns false if the worker was
-- declared dead: its jobs then belong to others. While the worker's row is locked by another
-- session, it is not declared dead.
CREATE OR REPLACE FUNCTION heartbeat(
    p_worker uuid, p_blocked interval DEFAULT '0', p_listens boolean DEFAULT NULL,
    p_trouble text DEFAULT NULL, p_stopping boolean DEFAULT false
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF lock_worker(p_worker) THEN
        UPDATE workers SET heartbeat_at = clock(), loop_turned_at = clock() - p_blocked,
            listens = p_listens, trouble = left(p_trouble, 500),
            queues = CASE WHEN p_stopping THEN '{}' ELSE queues END
        WHERE id = p_worker;
    END IF;
    RETURN EXISTS (SELECT FROM workers WHERE id = p_worker);
END $$;
