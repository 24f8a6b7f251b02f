-- Extend a token lock. KEYS: lock.
-- ARGV: token, ms, '0' to add them to what is left or '1' to replace it.
-- Replies 1 if it is ours, or else 0.

if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[3] == '0' and left + tonumber(ARGV[2]) or ARGV[2])
return 1
