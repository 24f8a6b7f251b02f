-- Check a permit. KEYS: permits. ARGV: lock_id. Replies 1 if it has one that has not ended.

local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
return ends and tonumber(ends) > ms and 1 or 0
