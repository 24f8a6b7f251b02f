-- The second half of drop_ours.lua, for the rare cases: the lock must stay taken for a while, or
-- its value does not begin as we wrote it. KEYS, ARGV and replies are the same.

local value = held(KEYS[1])
if not value or value.lock_id ~= ARGV[1] or value.released then
  return redis.call('EXISTS', KEYS[2])
end
if not ARGV[2] then
  return free()
end
-- A released lock that waits for its end is not stolen. A second release sees that its value does
-- not begin as we wrote it.
local members = string.match(redis.call('GET', KEYS[1]), '^%s*{(.*)$')
redis.call('SET', KEYS[1], '{"released":true,' .. members, 'PX', ARGV[2])
redis.call('SET', KEYS[2], '1', 'PX', MARK_MS)
return 1
