-- Stop waiting. KEYS: queue, waiters. ARGV: lock_id, channel. Who waited behind may be first now.

if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('PUBLISH', ARGV[2], ARGV[1])
end
return 1
