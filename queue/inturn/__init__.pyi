# The only list of public names. Type checkers read it, and __init__.py uses it to find the module
# to import when a name is first used.

from inturn import blueprints as blueprints
from inturn import exceptions as exceptions
from inturn import job_context as job_context
from inturn import jobs as jobs
from inturn import manager as manager
from inturn import middleware as middleware
from inturn import retry as retry
from inturn import tasks as tasks
from inturn.app import App as App
from inturn.control.bulk import WhichJobs as WhichJobs
from inturn.control.bulk import WhichLanes as WhichLanes
from inturn.database.connectors import BaseConnector as BaseConnector
from inturn.database.connectors import PsycopgConnector as PsycopgConnector
from inturn.database.connectors import SyncPsycopgConnector as SyncPsycopgConnector
from inturn.database.fences import check_fence as check_fence
from inturn.database.fences import check_fence_async as check_fence_async
from inturn.errors import JobAborted as JobAborted
from inturn.errors import JobLost as JobLost
from inturn.errors import JobSkipped as JobSkipped
from inturn.logs import JobFilter as JobFilter
from inturn.model import BatchCounts as BatchCounts
from inturn.model import BatchProgress as BatchProgress
from inturn.model import Group as Group
from inturn.model import Job as Job
from inturn.model import Lane as Lane
from inturn.model import Limit as Limit
from inturn.model import Progress as Progress
from inturn.model import Reason as Reason
from inturn.model import Status as Status
from inturn.model import StoredJob as StoredJob
from inturn.operations.changes.bulk import Bulk as Bulk
from inturn.operations.changes.bulk import JobPreview as JobPreview
from inturn.operations.changes.bulk import LanePreview as LanePreview
from inturn.operations.reading.verify import Deviation as Deviation
from inturn.operations.reading.verify import Verification as Verification
from inturn.tasks.blueprint import Blueprint as Blueprint
from inturn.tasks.blueprint import TaskOptions as TaskOptions
from inturn.tasks.context import JobContext as JobContext
from inturn.tasks.deferred import DeferredJob as DeferredJob
from inturn.tasks.lanes import shared as shared
from inturn.tasks.options import JobOptions as JobOptions
from inturn.tasks.options import NewJob as NewJob
from inturn.tasks.retry import BaseRetryStrategy as BaseRetryStrategy
from inturn.tasks.retry import RetryDecision as RetryDecision
from inturn.tasks.retry import RetryStrategy as RetryStrategy
from inturn.tasks.task import Deferrer as Deferrer
from inturn.tasks.task import Task as Task

__all__: list[str]
__version__: str
