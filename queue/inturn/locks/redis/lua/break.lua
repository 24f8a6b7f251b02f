-- Free the lock by force. Its fence rises, so that whatever compares fences refuses the old holder.
-- KEYS: lock, also the name of its channel; fence.
-- Replies {1} if it was held, {0} if it was free, {-1, what is there} if it is not a lock.

local value, problem = held(KEYS[1])
if value then
  -- An unknown fence stays unknown, so that the next contender asks for its seed.
  if redis.call('EXISTS', KEYS[2]) == 1 then
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
