-- Give a lock that has no expiry one; never touch another. KEYS: lock. ARGV: time to live in ms.

if redis.call('PTTL', KEYS[1]) == -1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
