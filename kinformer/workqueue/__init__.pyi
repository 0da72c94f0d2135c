# The public names of this package. `__init__.py` reads this file.

from kinformer.workqueue.delaying_queue import DelayingQueue as DelayingQueue
from kinformer.workqueue.delaying_queue import RateLimitingQueue as RateLimitingQueue
from kinformer.workqueue.rate_limiters import BucketRateLimiter as BucketRateLimiter
from kinformer.workqueue.rate_limiters import ExponentialFailureRateLimiter as ExponentialFailureRateLimiter
from kinformer.workqueue.rate_limiters import FastSlowRateLimiter as FastSlowRateLimiter
from kinformer.workqueue.rate_limiters import MaxOfRateLimiter as MaxOfRateLimiter
from kinformer.workqueue.rate_limiters import RateLimiter as RateLimiter
from kinformer.workqueue.work_queue import LOW_PRIORITY as LOW_PRIORITY
from kinformer.workqueue.work_queue import QueueStatistics as QueueStatistics
from kinformer.workqueue.work_queue import WorkQueue as WorkQueue
