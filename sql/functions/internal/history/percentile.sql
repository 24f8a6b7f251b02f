-- Returns the duration that a share of a histogram's jobs did not exceed, or NULL if it is empty.
-- Jobs are assumed to be spread evenly over their bin, by ratio, so the answer is off by a factor
-- of at most 1.41 (see duration_bin).
CREATE OR REPLACE FUNCTION percentile(p_counts bigint[], p_share float8) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
    SELECT make_interval(secs => CASE WHEN bin = 1 THEN place
        ELSE power(2, (bin - 2 + place) / 2) END / 1000)
    FROM (
        SELECT bin, jobs, upto, ((p_share * total - (upto - jobs)) / jobs)::float8 AS place
        FROM (
            SELECT bin, jobs, sum(jobs) OVER (ORDER BY bin) AS upto, sum(jobs) OVER () AS total
            FROM unnest(p_counts) WITH ORDINALITY AS bins(jobs, bin)
        ) AS summed
        WHERE jobs > 0 AND upto >= p_share * total
        ORDER BY bin LIMIT 1
    ) AS found
$$;
