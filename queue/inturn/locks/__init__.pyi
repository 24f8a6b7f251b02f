# The only list of the public names. Type checkers read it, and __init__.py looks up here which
# module to import when a name is first used.

from inturn.locks.compat.openlock import FileLock as FileLock
from inturn.locks.compat.redis_in_action import (
    acquire_lock_with_timeout as acquire_lock_with_timeout,
)
from inturn.locks.compat.redis_in_action import release_lock as release_lock
from inturn.locks.compat.token_lock import TokenLock as TokenLock
from inturn.locks.compat.token_lock_async import AsyncTokenLock as AsyncTokenLock
from inturn.locks.core.contender import Holder as Holder
from inturn.locks.core.lease import AsyncLease as AsyncLease
from inturn.locks.core.lease import Lease as Lease
from inturn.locks.decorator import locked as locked
from inturn.locks.errors import LockBackendError as LockBackendError
from inturn.locks.errors import LockDeadlock as LockDeadlock
from inturn.locks.errors import LockError as LockError
from inturn.locks.errors import LockLost as LockLost
from inturn.locks.errors import LockMalformed as LockMalformed
from inturn.locks.errors import LockNotHeld as LockNotHeld
from inturn.locks.errors import LockTimeout as LockTimeout
from inturn.locks.files.kernel import AsyncKernelFileLock as AsyncKernelFileLock
from inturn.locks.files.kernel import KernelFileLock as KernelFileLock
from inturn.locks.postgres.fences import check_lock_fence as check_lock_fence
from inturn.locks.postgres.fences import check_lock_fence_async as check_lock_fence_async
from inturn.locks.postgres.fences import highest_fence as highest_fence
from inturn.locks.postgres.fences import install as install
from inturn.locks.postgres.pg_lock import AsyncPgLock as AsyncPgLock
from inturn.locks.postgres.pg_lock import PgLock as PgLock
from inturn.locks.redis.basic import AsyncBasicLock as AsyncBasicLock
from inturn.locks.redis.basic import BasicLock as BasicLock
from inturn.locks.redis.policy import JOB as JOB
from inturn.locks.redis.policy import Policy as Policy
from inturn.locks.redis.semaphore import AsyncSemaphore as AsyncSemaphore
from inturn.locks.redis.semaphore import Semaphore as Semaphore
from inturn.locks.redis.smart import AsyncSmartLock as AsyncSmartLock
from inturn.locks.redis.smart import SmartLock as SmartLock
from inturn.locks.redis.smart import host_name as host_name
from inturn.locks.several import lock_all as lock_all
from inturn.locks.sigterm import expire_soon as expire_soon
from inturn.locks.urls import lock_from_url as lock_from_url
