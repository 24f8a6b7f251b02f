-- Returns the cell of a lock, counted from 0, if the queue has so many cells: the first eight bytes
-- of its SHA-256, big-endian, modulo their number. If the lock has a part in braces, as in
-- `{tenant:7}order:9`, only that part counts. Python computes the same (cells/placing.py).
CREATE OR REPLACE FUNCTION cell_of(p_lock text, p_cells integer) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (
        -- Two halves, because bigint is signed. p_cells is 1,024 at most, so nothing overflows.
        ((('x' || left(hash, 8))::bit(32)::bigint % p_cells) * (4294967296 % p_cells)
            + ('x' || substr(hash, 9, 8))::bit(32)::bigint) % p_cells
    )::integer
    FROM encode(sha256(convert_to(coalesce(
        substring(p_lock FROM '^[^{]*\{([^}]+)\}'), p_lock), 'UTF8')), 'hex') AS hash
$$;
