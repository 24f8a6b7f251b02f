-- The rest of take_free.lua: the lock is taken, or its fence is unknown.
-- KEYS and replies as there. ARGV: 3 when it may be stolen: grace in ms for our host's old lock (-1: never steal), age in s from which another
--       host's lock is stale (-1: never), grace in ms for a stale one, a guard whose process is proven dead;
--       and the fence's seed ('': ask for it if the fence is unknown).

local same_host, stale_after, stale, dead, seed = string.match(ARGV[3], '^(%S+) (%S+) (%S+) (%S+) (%d*)$')
same_host, stale_after, stale = tonumber(same_host), tonumber(stale_after), tonumber(stale)

local function our_host_may_have_left(value, ours)
  return same_host >= 0 and value.hostname == ours.hostname and not value.portable and not value.released
end

-- Our host's lock is dead if its process is, or is from before the boot. Without a guard (another program's value) the
-- name of the host has to do.
local function our_host_left(value, ours)
  return our_host_may_have_left(value, ours)
    and (value.guard == nil or value.guard == dead or (value.boot and ours.boot and value.boot ~= ours.boot))
end

local function an_earlier_attempt_left(value, ours)
  return ours.attempt and value.on_behalf_of == ours.on_behalf_of and type(value.attempt) == 'number'
    and value.attempt < ours.attempt and not value.released
end

local function stealable_after(value, ours)
  if an_earlier_attempt_left(value, ours) then
    return 0
  end
  if our_host_left(value, ours) then
    return same_host
  end
  if stale_after >= 0 and now() - value.acquired_at >= stale_after and not value.released then
    return stale
  end
  return -1
end

local value, problem = held(KEYS[1])
if value then
  local ours = cjson.decode(ARGV[1] .. '}')
  if value.lock_id == ours.lock_id then
    return granted(string.format('%.0f', tonumber(value.fence) or -1), string.format('%.0f', value.acquired_at))
  end
  local grace = stealable_after(value, ours)
  if grace > 0 then
    local left = redis.call('PTTL', KEYS[1])
    if left < 0 or left > grace then
      redis.call('PEXPIRE', KEYS[1], grace)
    end
  end
  if grace ~= 0 then
    local reply = facts(KEYS[1], value)
    table.insert(reply, 1, 0)
    table.insert(reply, our_host_may_have_left(value, ours) and printable(value.guard) or '')
    return reply
  end
elseif problem ~= 'none' then
  return {-1, problem}
end

local fence = redis.call('INCR', KEYS[2])
if fence == 1 then
  if seed == '' then
    redis.call('DEL', KEYS[2])
    return {2}
  end
  fence = redis.call('INCRBY', KEYS[2], seed)
end
return take(fence)
