-- Returns how often each number from 1 to the largest occurs in a list of bins.
CREATE OR REPLACE FUNCTION histogram(p_bins integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
    WITH counted AS (SELECT bin, count(*) AS jobs FROM unnest(p_bins) AS bin GROUP BY bin)
    SELECT coalesce(array_agg(coalesce(jobs, 0)::integer ORDER BY n), '{}')
    FROM generate_series(1, (SELECT max(bin) FROM counted)) AS n
    LEFT JOIN counted ON counted.bin = n
$$;
