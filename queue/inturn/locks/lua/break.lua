-- Free the lock by force. The fence rises, so that the old holder's is refused wherever it is compared with the newest.
-- KEYS: lock, fence. ARGV: channel. Replies {1} broken, {0} free, {-1, what stands there}.

local value, problem = held(KEYS[1])
if value then
  redis.call('INCR', KEYS[2])
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[1], 'broken')
  return {1}
end
if problem == 'none' then
  return {0}
end
return {-1, problem}
