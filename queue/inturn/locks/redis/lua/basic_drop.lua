-- Release a basic lock, whoever holds it.
-- KEYS: lock, also the name of its channel.
-- Replies {1} if it was held, {0} if it was free, {-1, what is there} if it is not a lock.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0}
end
if kind ~= 'string' then
  return {-1, 'a ' .. kind}
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[1], 'released')
return {1}
