-- Take a basic lock if it is free.
-- KEYS: lock. ARGV: value, time to live in ms ('' for none).
-- Replies {1} if taken, {0, time to live in ms} if held, {-1, what is there} if it is not a lock.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'string' then
  return {-1, 'a ' .. kind}
end
if kind == 'string' then
  return {0, redis.call('PTTL', KEYS[1])}
end
if ARGV[2] == '' then
  redis.call('SET', KEYS[1], ARGV[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {1}
