-- Returns an advisory lock: of a lane or a gate, whose row the session that holds it may insert, or
-- of work that one session does at a time. Of a lane it is only a filter, so that claims need not
-- wait for each other: the real mutex is the lane's row. Schemas do not share locks.
CREATE OR REPLACE FUNCTION lock_key(p_kind text, p_name text DEFAULT NULL) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn ' || p_kind, current_schema(), p_name), 0)
$$;
