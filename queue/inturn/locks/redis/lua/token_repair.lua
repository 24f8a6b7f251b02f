-- Give a lock without an expiry one, and leave alone any other lock, and what is not a lock.
-- KEYS: lock. ARGV: time to live in ms.

if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('PTTL', KEYS[1]) == -1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
