-- look_further: prepares the next round of a claim. Widens the window if the jobs in front cannot
-- start, and forgets what the last round has found.
CREATE OR REPLACE FUNCTION look_further(INOUT r claim_round, p_round integer)
LANGUAGE plpgsql AS $$
BEGIN
    IF r.behind IS NOT NULL OR r.shut IS NOT NULL OR cardinality(r.missed) > 0 THEN
        r.reach := CASE WHEN p_round = 4 AND r.widest > 2000 THEN r.widest
            ELSE least(2000, 8 * r.reach) END;
    END IF;
    -- As in the first round, for which a session need not compile this.
    r.lanes := NULL;
    r.seen := NULL;
    r.several := NULL;
    r.behind := NULL;
    r.behind_locks := NULL;
    r.shut := NULL;
    r.more := NULL;
    r.widest := NULL;
    r.won := NULL;
    r.used := NULL;
    r.heads := NULL;
    r.kept := NULL;
    r.marked := NULL;
    r.started := NULL;
END $$;
