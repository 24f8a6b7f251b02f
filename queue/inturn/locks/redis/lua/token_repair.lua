-- Give a lock without an expiry one, and leave any other lock alone.
-- KEYS: lock. ARGV: time to live in ms.

if redis.call('PTTL', KEYS[1]) == -1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
