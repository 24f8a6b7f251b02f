-- Quotes a text as one argument of a shell command to copy.
CREATE OR REPLACE FUNCTION shell_argument(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_text LIKE '-%' THEN '-- ' ELSE '' END
        || CASE WHEN p_text ~ '^[A-Za-z0-9_@%+=:,./-]+$' THEN p_text
                ELSE '''' || replace(p_text, '''', '''"''"''') || '''' END
$$;
