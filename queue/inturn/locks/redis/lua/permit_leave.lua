-- Stop waiting. The next waiter in the queue may be first now.
-- KEYS: queue, waiters. ARGV: lock_id, channel.

if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('PUBLISH', ARGV[2], ARGV[1])
end
return 1
