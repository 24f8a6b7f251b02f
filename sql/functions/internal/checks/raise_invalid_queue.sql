-- Raises an error that names the first invalid queue name.
CREATE OR REPLACE FUNCTION raise_invalid_queue(p_queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'queue: give 1 to 63 letters, digits, and _ . : -' USING
        ERRCODE = 'invalid_parameter_value',
        DETAIL = (
            SELECT quote_literal(left(min(queue), 63)) || ' is not a valid queue name'
            FROM unnest(p_queues) AS queue
            WHERE queue = '' OR octet_length(queue) > 63 OR has_invalid_queue(ARRAY[queue]));
END $$;
