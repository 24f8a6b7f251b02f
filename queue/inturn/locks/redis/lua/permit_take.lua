-- Take one of N permits, in the order of asking. All times are the server's.
-- KEYS: permits (zset: end in ms), queue (zset: ticket), waiters (zset: end of patience in ms),
--       tickets, fence.
-- ARGV: 1 lock_id, 2 limit, 3 ttl in ms, 4 patience in ms (0: do not queue),
--       5 seed ('': ask for it if the fence is unknown).
-- Replies {1, fence, acquired_at}, {0, ms until a permit ends}, {2} if the seed is wanted.

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local ms = seconds * 1000 + math.floor(tonumber(time[2]) / 1000)

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ms)) do
  -- It stopped asking, so it died or gave up. No one waits behind it.
  redis.call('ZREM', KEYS[2], gone)
  redis.call('ZREM', KEYS[3], gone)
end

if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {1, tonumber(redis.call('GET', KEYS[5])) or 0, seconds}
end

local waits = tonumber(ARGV[4]) > 0
if waits then
  if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), ARGV[1])
  end
  redis.call('ZADD', KEYS[3], ms + tonumber(ARGV[4]), ARGV[1])
end
local before = redis.call('ZRANK', KEYS[2], ARGV[1]) or redis.call('ZCARD', KEYS[2])
if tonumber(ARGV[2]) - redis.call('ZCARD', KEYS[1]) <= before then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {0, first[2] and math.max(1, tonumber(first[2]) - ms) or 1}
end

if redis.call('EXISTS', KEYS[5]) == 0 then
  if ARGV[5] == '' then
    return {2}
  end
  redis.call('SET', KEYS[5], ARGV[5])
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[1], ms + tonumber(ARGV[3]), ARGV[1])
return {1, redis.call('INCR', KEYS[5]), seconds}
