-- Renew a smart lock. KEYS: lock, mark of its release. ARGV: lock_id, new time to live in ms.
-- Replies 1 if renewed, 2 if its owner released it elsewhere, 0 if it is not ours.

local value = held(KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 2
end
if not value or value.lock_id ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
