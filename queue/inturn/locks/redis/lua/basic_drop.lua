-- Anybody's release. KEYS: lock, also the name of its channel. Replies {1}, {0} free, {-1, what stands there}.

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
