-- The rest of drop_ours.lua: the lock must stay for a while, or does not begin as we wrote it.
-- KEYS, ARGV and replies as there.

local value = held(KEYS[1])
if not value or value.lock_id ~= ARGV[1] or value.released then
  return redis.call('EXISTS', KEYS[2])
end
if not ARGV[2] then
  return free()
end
-- Nobody steals what only waits for its end, and a second release finds that it does not begin as we wrote it.
local members = string.match(redis.call('GET', KEYS[1]), '^%s*{(.*)$')
redis.call('SET', KEYS[1], '{"released":true,' .. members, 'PX', ARGV[2])
redis.call('SET', KEYS[2], '1', 'PX', MARK_MS)
return 1
