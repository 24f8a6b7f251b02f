-- begin_turns: determines whether the groups take turns in a claim of these queues. Then it claims
-- no job ahead of its turn.
CREATE OR REPLACE FUNCTION begin_turns(INOUT r claim_round)
LANGUAGE plpgsql AS $$
BEGIN
    r.fair := groups_wait(r.queues);
    IF r.fair THEN
        r.turns := coalesce(r.turns, '{}');
        r.asked := least(r.asked, r.slots);
    END IF;
END $$;
