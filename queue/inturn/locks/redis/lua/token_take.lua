-- Take a token lock.
-- KEYS: lock. ARGV: token, time to live in ms ('' for none), '1' if the token is unique.
-- Replies 1 if taken, 0 if held, -1 if it is not a lock.
-- A request that is repeated because its reply was lost finds its own token.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  if ARGV[2] == '' then
    redis.call('SET', KEYS[1], ARGV[1])
  else
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
  return 1
end
if kind ~= 'string' then
  return -1
end
if ARGV[3] == '1' and redis.call('GET', KEYS[1]) == ARGV[1] then
  return 1
end
return 0
