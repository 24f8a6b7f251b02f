-- Give the lock back if it is ours. Done twice it answers the same: the second time the mark of the first is found.
-- KEYS: lock, mark of this release. ARGV: lock_id, channel, ms that it must stay taken. Replies 1 if ours, else 0.

local MARK_MS = 30000 -- how long a release can be repeated: longer than any client retries

local value = held(KEYS[1])
if not value or value.lock_id ~= ARGV[1] or value.released then
  return redis.call('EXISTS', KEYS[2])
end
local stay = tonumber(ARGV[3])
if stay > 0 then
  value.released = true -- nobody steals what only waits for its end
  redis.call('SET', KEYS[1], cjson.encode(value), 'PX', stay)
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], ARGV[1])
end
redis.call('SET', KEYS[2], '1', 'PX', MARK_MS)
return 1
