-- The second half of take_free.lua, for when the lock is taken or its fence is unknown.
-- KEYS and replies are the same. ARGV[3] is a line of five words:
--   grace in ms for an old lock of our host (-1: never steal it),
--   age in s from which a lock of another host is stale (-1: never),
--   grace in ms for a stale lock,
--   a guard whose process is proven dead,
--   the fence's seed ('': ask for it if the fence is unknown).

local same_host, stale_after, stale, dead, seed =
  string.match(ARGV[3], '^(%S+) (%S+) (%S+) (%S+) (%d*)$')
same_host, stale_after, stale = tonumber(same_host), tonumber(stale_after), tonumber(stale)

local function our_host_may_have_left(value, ours)
  return same_host >= 0 and value.hostname == ours.hostname
    and not value.portable and not value.released
end

-- A lock of our host is dead if its process is dead, or if it is from before the boot. A value of
-- another program has no guard. There, the name of the host must do.
local function our_host_left(value, ours)
  return our_host_may_have_left(value, ours)
    and (value.guard == nil or value.guard == dead
      or (value.boot and ours.boot and value.boot ~= ours.boot))
end

local function an_earlier_attempt_left(value, ours)
  return ours.attempt and value.on_behalf_of == ours.on_behalf_of
    and type(value.attempt) == 'number' and value.attempt < ours.attempt and not value.released
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
    local fence = string.format('%.0f', tonumber(value.fence) or -1)
    return granted(fence, string.format('%.0f', value.acquired_at))
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
