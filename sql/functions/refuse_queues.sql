-- Says which name is not one that a queue can have.
CREATE OR REPLACE FUNCTION refuse_queues(p_queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'queue: give 1 to 63 letters, digits, and _ . : -' USING
        ERRCODE = 'invalid_parameter_value',
        DETAIL = 'Not ' || (SELECT quote_literal(left(min(queue), 63)) FROM unnest(p_queues) AS queue WHERE misnamed(ARRAY[queue]));
END $$;
