-- Take the lock if it is free, if it is ours already (a repeated request), or if it may be stolen.
-- This half handles the usual case: the lock is free and its fence is known. take.lua continues
-- from here, and makes what only the other cases need.
-- KEYS: lock, fence.
-- ARGV: 1 the value as JSON without fence, acquired_at and its closing brace, 2 ttl in ms,
--       3 what only take.lua reads.
-- Few arguments, a ready-made value and a reply of one line: each of them would cost a client more
-- than the server's work on it.
-- Replies 'fence acquired_at', {0, facts…, a guard whose death would let us steal it},
-- {2} if the seed is wanted, {-1, what is there} if it is not a lock.

local function granted(fence_text, seconds)
  return redis.status_reply(fence_text .. ' ' .. seconds)
end

local function take(fence)
  local seconds = redis.call('TIME')[1]
  local fence_text = string.format('%.0f', fence)
  local value = ARGV[1] .. ',"fence":' .. fence_text .. ',"acquired_at":' .. seconds .. '}'
  redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
  return granted(fence_text, seconds)
end

-- A refused contender writes nothing, not even something that it takes back. The memory may be
-- full, and replicas would hear of every try.
if redis.call('EXISTS', KEYS[1]) == 0 then
  local fence = redis.call('INCR', KEYS[2])
  if fence > 1 then
    return take(fence)
  end
  redis.call('DEL', KEYS[2]) -- the fence was unknown
end
