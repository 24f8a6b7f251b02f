-- Take the lock if it is free, ours already (a repeated request), or may be stolen.
-- KEYS: lock, fence.
-- ARGV: 1 lock_id, 2 hostname, 3 ttl in ms, 4 owner, 5 fence seed ('': ask for it if the fence is unknown),
--       6 guard ('': none taken), 7 boot id, 8 grace in ms for our host's old lock (-1: never steal),
--       9 age in s from which another host's lock is stale (-1: never), 10 grace in ms for a stale one, 11 channel.
-- Replies: {1, fence, acquired_at}, {0, facts…}, {2} the seed is wanted, {-1, what stands there}.

local value, problem = held(KEYS[1])
local seconds = now()

-- Our host's lock is dead if no living process of this host holds it: we hold its guard, or it is from before the boot.
-- Without a guard (another program's value) the name of the host has to do.
local function our_host_left_it()
  if value.hostname ~= ARGV[2] or ARGV[6] == '' or value.portable or value.released then
    return false
  end
  return value.guard == nil or value.guard == ARGV[6] or (value.boot ~= nil and value.boot ~= ARGV[7])
end

local function stealable_after()
  local grace, stale_after = tonumber(ARGV[8]), tonumber(ARGV[9])
  if grace >= 0 and our_host_left_it() then
    return grace
  end
  if stale_after >= 0 and seconds - value.acquired_at >= stale_after and not value.released then
    return tonumber(ARGV[10])
  end
  return -1
end

if value then
  if value.lock_id == ARGV[1] then
    return {1, tonumber(value.fence) or -1, value.acquired_at}
  end
  local grace = stealable_after()
  if grace > 0 then
    local left = redis.call('PTTL', KEYS[1])
    if left < 0 or left > grace then
      redis.call('PEXPIRE', KEYS[1], grace)
    end
  end
  if grace ~= 0 then
    local reply = facts(KEYS[1], value)
    table.insert(reply, 1, 0)
    return reply
  end
elseif problem ~= 'none' then
  return {-1, problem}
end

if redis.call('EXISTS', KEYS[2]) == 0 then
  if ARGV[5] == '' then
    return {2}
  end
  redis.call('SET', KEYS[2], ARGV[5])
end
local fence = redis.call('INCR', KEYS[2])
local new = {hostname = ARGV[2], acquired_at = seconds, lock_id = ARGV[1], owner = ARGV[4], fence = fence,
  boot = ARGV[7]}
if ARGV[6] ~= '' then
  new.guard = ARGV[6]
else
  new.portable = true
end
redis.call('SET', KEYS[1], cjson.encode(new), 'PX', ARGV[3])
return {1, fence, seconds}
