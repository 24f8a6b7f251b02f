-- Take the lock if it is free, ours already (a repeated request), or may be stolen. Here is the nearly always true:
-- it is free and its fence is known; what is made for the rest only, is made in take.lua, which goes on from here.
-- KEYS: lock, fence.
-- ARGV: 1 the value as JSON without fence, acquired_at and its closing brace, 2 ttl in ms, 3 what only take.lua reads.
-- Few arguments, the value ready made, a reply of one line: each costs a client more than the server's work on it.
-- Replies: 'fence acquired_at', {0, facts…, guard whose death would change that}, {2} the seed is wanted,
-- {-1, what stands there}.

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

-- Who is refused writes nothing, not even what is taken back: memory may be full, and standbys would hear of each try.
if redis.call('EXISTS', KEYS[1]) == 0 then
  local fence = redis.call('INCR', KEYS[2])
  if fence > 1 then
    return take(fence)
  end
  redis.call('DEL', KEYS[2]) -- it was unknown
end
