-- Add the guard to a lock that is ours. KEYS: lock. ARGV: lock_id, guard.

local value = held(KEYS[1])
if value and value.lock_id == ARGV[1] then
  value.guard = ARGV[2]
  value.portable = nil
  redis.call('SET', KEYS[1], cjson.encode(value), 'KEEPTTL')
  return 1
end
return 0
