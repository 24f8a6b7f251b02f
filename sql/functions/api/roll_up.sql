-- Counts ended jobs for the rollup (see count_ends), in one step of at most p_pages pages of the
-- history. Returns true if there is more to do at once.
--
-- Ending a job costs nothing extra: no index, no row. Instead, a pass reads all pages of a day, in
-- steps, and counts the rows of those transactions that were open or yet to begin when the previous
-- pass began. It ends below the oldest transaction that was open when it began (`counting_below`),
-- so each end is counted once, however late it commits, and in whichever page it lies. Passes over
-- a day begin once a minute, or less often if the day is large. When the day is over, they become
-- rare. A day later, the last one waits for all transactions that are open at that time
-- (`closing_below`).
--
-- Only one call at a time makes a step, and none waits. Only days with their own partition are
-- counted. If the partition was rewritten or restored, its rows have other transactions, so rows
-- that are already there count as counted. Transaction ids of another server mean nothing either.
CREATE OR REPLACE FUNCTION roll_up(p_pages integer) RETURNS boolean
LANGUAGE plpgsql
SET timezone = 'UTC'
SET lock_timeout = '50ms'
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_open bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    v_pass rollup_days;
    v_file oid;
    v_to   bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock_key('rollup')) THEN
        RETURN false;
    END IF;
    PERFORM begin_rollups();
    SELECT * INTO v_pass FROM rollup_days
    WHERE due_at <= clock() OR due_at IS NOT NULL AND begun_at > clock()   -- the clock was set back
    ORDER BY due_at, day LIMIT 1;
    IF NOT FOUND THEN
        RETURN prune_rollups();
    END IF;
    v_file := pg_relation_filenode(to_regclass(history_table(v_pass.day)));
    IF v_file IS NULL THEN
        DELETE FROM uncounted_ends WHERE day = v_pass.day;
        DELETE FROM rollup_days WHERE day = v_pass.day;
        RETURN true;
    ELSIF v_file <> v_pass.file
        OR v_open < greatest(v_pass.counted_below, v_pass.counting_below) THEN
        DELETE FROM uncounted_ends WHERE day = v_pass.day;
        UPDATE rollup_days SET file = v_file, counted_below = v_open, counting_below = NULL,
            closing_below = NULL
        WHERE day = v_pass.day;
        RETURN true;
    END IF;
    IF v_pass.counting_below IS NULL THEN
        v_pass.counting_below := v_open;
        v_pass.begun_at := clock();
        v_pass.next_page := 0;
        IF v_pass.begun_at >= (v_pass.day + 2)::timestamptz THEN
            v_pass.closing_below := coalesce(v_pass.closing_below,
                pg_snapshot_xmax(pg_current_snapshot())::text::bigint);
        END IF;
        v_pass.pages := pg_relation_size(to_regclass(history_table(v_pass.day)))
            / current_setting('block_size')::integer;
    END IF;
    v_to := v_pass.pages;
    IF v_pass.counting_below > v_pass.counted_below THEN
        v_to := least(v_pass.next_page + p_pages, v_pass.pages);
        PERFORM count_ends(v_pass, v_to);
    END IF;
    v_pass.next_page := v_to;
    PERFORM note_pass(v_pass);
    RETURN true;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
    RETURN false;   -- another session is dropping the day or has locked it
END $$;
