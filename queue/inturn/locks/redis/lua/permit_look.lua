-- Look at a semaphore. KEYS: permits, fence.
-- Replies {permits taken, ms until the first of them ends (-1 if there is none), fence}.

local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local taken = redis.call('ZCOUNT', KEYS[1], '(' .. ms, '+inf')
local first = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ms, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local left = first[2] and tonumber(first[2]) - ms or -1
return {taken, left, tonumber(redis.call('GET', KEYS[2])) or 0}
