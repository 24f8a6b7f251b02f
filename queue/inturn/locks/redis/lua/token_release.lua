-- Release a token lock. KEYS: lock[, mark of this release].
-- ARGV: token[, ms for which the mark is kept]. Replies 1 if it was ours, or else 0.

if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if KEYS[2] then
    redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
  end
  return 1
end
if KEYS[2] then
  return redis.call('EXISTS', KEYS[2])
end
return 0
