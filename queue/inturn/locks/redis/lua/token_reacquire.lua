-- Restart the time to live of a token lock. KEYS: lock. ARGV: token, time to live in ms.
-- Replies 1 if it is ours, or else 0.

if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
