-- Take the lock if it is free, ours already (a repeated request), or may be stolen.
-- KEYS: lock, fence.
-- ARGV: 1 lock_id, 2 the value without fence and acquired_at, as JSON without its closing brace, 3 ttl in ms,
--       4 fence seed ('': ask for it if the fence is unknown), 5 when it may be stolen, three numbers:
--       grace in ms for our host's old lock (-1: never steal), age in s from which another host's lock is stale
--       (-1: never), grace in ms for a stale one.
-- Few arguments, and the value ready made: each costs a client more than the server's work on it.
-- Replies: {1, fence, acquired_at}, {0, facts…}, {2} the seed is wanted, {-1, what stands there}.

-- Our host's lock is dead if no living process of this host holds it: we hold its guard, or it is from before the boot.
-- Without a guard (another program's value) the name of the host has to do.
local function our_host_left(value, ours)
  if value.hostname ~= ours.hostname or not ours.guard or value.portable or value.released then
    return false
  end
  return value.guard == nil or value.guard == ours.guard or (value.boot ~= nil and value.boot ~= ours.boot)
end

local function an_earlier_attempt_left(value, ours)
  return ours.attempt and value.on_behalf_of == ours.on_behalf_of and type(value.attempt) == 'number'
    and value.attempt < ours.attempt and not value.released
end

local function stealable_after(value)
  local ours = cjson.decode(ARGV[2] .. '}')
  if an_earlier_attempt_left(value, ours) then
    return 0
  end
  local same_host, stale_after, stale = string.match(ARGV[5], '^(%S+) (%S+) (%S+)$')
  if tonumber(same_host) >= 0 and our_host_left(value, ours) then
    return tonumber(same_host)
  end
  if tonumber(stale_after) >= 0 and now() - value.acquired_at >= tonumber(stale_after) and not value.released then
    return tonumber(stale)
  end
  return -1
end

local value, problem = held(KEYS[1])
if value then
  if value.lock_id == ARGV[1] then
    return {1, tonumber(value.fence) or -1, value.acquired_at}
  end
  local grace = stealable_after(value)
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

local fence, seconds = redis.call('INCR', KEYS[2]), now()
if fence == 1 then -- it was unknown
  if ARGV[4] == '' then
    redis.call('DEL', KEYS[2])
    return {2}
  end
  fence = redis.call('INCRBY', KEYS[2], ARGV[4])
end
local new = string.format('%s,"fence":%.0f,"acquired_at":%.0f}', ARGV[2], fence, seconds)
redis.call('SET', KEYS[1], new, 'PX', ARGV[3])
return {1, fence, seconds}
