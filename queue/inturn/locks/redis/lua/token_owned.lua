-- Check a token lock. KEYS: lock. ARGV: token. Replies 1 if it is ours, or else 0.

local is_text = redis.call('TYPE', KEYS[1]).ok == 'string'
return is_text and redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
