-- Free the lock by force. The fence rises, so that the old holder's is refused wherever it is compared with the newest.
-- KEYS: lock, also the name of its channel; fence. Replies {1} broken, {0} free, {-1, what stands there}.

local value, problem = held(KEYS[1])
if value then
  if redis.call('EXISTS', KEYS[2]) == 1 then -- an unknown one stays unknown, and whoever takes the lock asks for its seed
    redis.call('INCR', KEYS[2])
  end
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], 'broken')
  return {1}
end
if problem == 'none' then
  return {0}
end
return {-1, problem}
