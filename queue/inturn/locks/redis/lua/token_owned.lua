-- KEYS: lock. ARGV: token. Replies 1 if ours, else 0.

return redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
