-- Look at a smart lock. KEYS: lock.
-- Replies {0} if it is free, {1, facts…}, {-1, what is there} if it is not a lock.

local value, problem = held(KEYS[1])
if value then
  local reply = facts(KEYS[1], value)
  table.insert(reply, 1, 1)
  return reply
end
if problem == 'none' then
  return {0}
end
return {-1, problem}
