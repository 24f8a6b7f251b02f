-- Records when a claim must look at these keys again: when the next token comes, if jobs wait for
-- one. The caller has locked and folded the keys.
CREATE OR REPLACE FUNCTION plan_look(p_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE limit_keys
    SET look_at = CASE
        WHEN tokens < (known.rule).burst AND coalesce(used < (known.rule).slots, true) AND (
            SELECT true FROM jobs WHERE status = 'limited' AND limit_key = key LIMIT 1)
        THEN refilled_at + interval '1 us'
            + (1 - tokens + floor(tokens)) / (known.rule).rate * (known.rule).period END
    FROM (
        SELECT k, find_limit(k) FROM unnest(p_keys) AS k
    ) AS known(k, rule)
    WHERE key = ANY (ARRAY[k]) AND tokens IS NOT NULL;
END $$;
