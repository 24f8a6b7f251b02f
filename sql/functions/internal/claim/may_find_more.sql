-- may_find_more: tells whether a claim that wants more jobs should look again because the next
-- round would see different ones.
CREATE OR REPLACE FUNCTION may_find_more(r claim_round, p_patient boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF r.lanes_left <= 0 OR r.since IS NOT NULL THEN
        RETURN false;
    END IF;
    -- While another claim clears the front, take what there is. A patient caller may also return
    -- empty-handed, but not for ever: the other claim may be stuck.
    IF r.blocked IS NULL AND (p_patient OR r.wanted < r.asked) THEN
        RETURN false;
    END IF;
    -- Finishes in the lanes of the jobs that it has blocked wait until it commits.
    IF r.blocked >= r.asked AND r.wanted < r.asked THEN
        RETURN false;
    END IF;
    RETURN (r.blocked > 0                             -- the front has moved
        OR r.marked                                   -- the same, by a limit or a pause
        OR r.more AND r.reach < r.widest              -- the window can reach further
        OR r.short                                    -- other claims took free jobs
        OR cardinality(r.several) > 0
        -- other claims took lanes, and we have nothing yet
        OR r.wanted = r.asked AND cardinality(r.used) < cardinality(r.lanes)) IS TRUE;
END $$;
