-- Returns the cell of a lock, counted from 0, if the queue has so many cells: the first eight bytes
-- of its SHA-256, big-endian, modulo that number. If the lock has a part in braces, as in
-- `{tenant:7}order:9`, only that part counts. Python computes the same (tasks/lanes.py).
CREATE OR REPLACE FUNCTION cell_of(lock text, cells integer) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (
        -- Two halves, because bigint is signed. With 1,024 cells at most, nothing overflows.
        ((('x' || left(hash, 8))::bit(32)::bigint % cells) * (4294967296 % cells)
            + ('x' || substr(hash, 9, 8))::bit(32)::bigint) % cells
    )::integer
    FROM encode(sha256(convert_to(coalesce(
        substring(lock FROM '^[^{]*\{([^}]+)\}'), lock), 'UTF8')), 'hex') AS hash
$$;
