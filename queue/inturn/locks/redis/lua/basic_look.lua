-- KEYS: lock. Replies its time to live in ms, -1 for none, -2 if there is no lock.

return redis.call("PTTL", KEYS[1])
