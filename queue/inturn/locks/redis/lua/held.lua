-- Read the value at a key. Every script of the smart lock begins with this one.
-- `held` returns the decoded value, or nil and a reason: 'none', or what is there instead.

-- Bytes. No value of ours is as long, and decoding half a gigabyte would stop the server.
local LONGEST = 65536

local function printable(text)
  return (string.gsub(string.sub(tostring(text), 1, 200), '[^\32-\126]', function(c)
    return string.format('\\x%02x', string.byte(c))
  end))
end

local function now()
  return tonumber(redis.call('TIME')[1])
end

local function is_lock(value)
  return type(value) == 'table'
    and type(value.hostname) == 'string' and type(value.lock_id) == 'string'
    and type(value.acquired_at) == 'number' and value.acquired_at == math.floor(value.acquired_at)
end

local function held(key)
  local raw = redis.pcall('GETRANGE', key, 0, LONGEST) -- an error if it has another type
  if raw == '' and redis.call('EXISTS', key) == 0 then
    return nil, 'none'
  end
  if type(raw) ~= 'string' then
    return nil, 'a ' .. redis.call('TYPE', key).ok
  end
  if #raw > LONGEST then
    return nil, 'a string of ' .. redis.call('STRLEN', key) .. ' bytes'
  end
  local decoded, value = pcall(cjson.decode, raw)
  if decoded and is_lock(value) then
    return value
  end
  return nil, 'the value ' .. printable(raw)
end

-- The facts that clients show. Only ASCII, because some clients decode every reply.
local function facts(key, value)
  return {printable(value.owner or value.hostname), printable(value.lock_id), value.acquired_at,
    now() - value.acquired_at, redis.call('PTTL', key), tonumber(value.fence) or -1}
end
