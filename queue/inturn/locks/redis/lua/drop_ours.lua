-- Give the lock back if it is ours. A repeated request gets the same reply, because it finds the
-- mark that the first one left.
-- This half handles the usual case: the value begins with our lock_id (32 digits), as we wrote it.
-- drop.lua continues from here.
-- KEYS: lock, also the name of its channel; mark of this release.
-- ARGV: 1 lock_id, 2 ms for which it must stay taken, if any. Replies 1 if it was ours, or else 0.

local MARK_MS = '30000' -- how long a release can be repeated: longer than any client retries

local function free()
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], ARGV[1])
  redis.call('SET', KEYS[2], '1', 'PX', MARK_MS)
  return 1
end

local beginning = redis.pcall('GETRANGE', KEYS[1], '0', '44')
if not ARGV[2] and beginning == '{"lock_id":"' .. ARGV[1] .. '"' then
  return free()
end
