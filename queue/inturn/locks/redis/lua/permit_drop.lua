-- Give a permit back.
-- KEYS: permits, mark of this release. ARGV: lock_id, channel, ms for which the mark is kept.
-- Replies 1 if it was ours, or else 0.

local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 1
end
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= ms then
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
redis.call('PUBLISH', ARGV[2], ARGV[1])
return 1
