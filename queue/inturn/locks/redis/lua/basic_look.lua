-- Look at a basic lock. KEYS: lock.
-- Replies its time to live in ms, -1 if it does not expire, -2 if there is no lock.

return redis.call("PTTL", KEYS[1])
