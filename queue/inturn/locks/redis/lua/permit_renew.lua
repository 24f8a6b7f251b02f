-- Renew a permit. One that has ended is removed, and not brought back to life.
-- KEYS: permits, mark of its release. ARGV: lock_id, ttl in ms.
-- Replies 1 if renewed, 2 if it was released elsewhere, 0 if it is not ours.

local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 2
end
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= ms then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 0
end
redis.call('ZADD', KEYS[1], ms + tonumber(ARGV[2]), ARGV[1])
return 1
