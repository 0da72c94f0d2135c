"""Kubernetes informers for asyncio.

An informer lists a resource once, watches it from there, keeps an indexed copy in memory, and tells
handlers what changed. Start with `Client` and `SharedInformerFactory`; ``docs/architecture.md`` shows how
a line of a watch becomes a call of a handler.

Names are imported when they are first used, so that ``import kinformer`` costs a program only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinformer._runtime.backoff import Backoff as Backoff
    from kinformer.cache.indexer import Indexer as Indexer
    from kinformer.cache.lister import Lister as Lister
    from kinformer.cache.store import Store as Store
    from kinformer.client.client import Client as Client
    from kinformer.controller.applier import Applier as Applier
    from kinformer.controller.controller import Controller as Controller
    from kinformer.controller.event_recorder import EventRecorder as EventRecorder
    from kinformer.controller.event_recorder import EventRecorderStatistics as EventRecorderStatistics
    from kinformer.controller.finalizers import Finalizer as Finalizer
    from kinformer.controller.metrics import ControllerStatistics as ControllerStatistics
    from kinformer.controller.predicates import Predicate as Predicate
    from kinformer.controller.predicates import all_of as all_of
    from kinformer.controller.predicates import annotations_changed as annotations_changed
    from kinformer.controller.predicates import any_of as any_of
    from kinformer.controller.predicates import generation_changed as generation_changed
    from kinformer.controller.predicates import labels_changed as labels_changed
    from kinformer.controller.predicates import not_ as not_
    from kinformer.controller.predicates import resource_version_changed as resource_version_changed
    from kinformer.controller.predicates import resynced as resynced
    from kinformer.controller.reconcile import Reason as Reason
    from kinformer.controller.reconcile import Request as Request
    from kinformer.controller.reconcile import Result as Result
    from kinformer.controller.reconcile import TerminalError as TerminalError
    from kinformer.controller.status import write_status as write_status
    from kinformer.exceptions import AlreadyExistsError as AlreadyExistsError
    from kinformer.exceptions import APIError as APIError
    from kinformer.exceptions import BadRequestError as BadRequestError
    from kinformer.exceptions import ConfigError as ConfigError
    from kinformer.exceptions import ConflictError as ConflictError
    from kinformer.exceptions import DecodeError as DecodeError
    from kinformer.exceptions import ExpiredError as ExpiredError
    from kinformer.exceptions import ForbiddenError as ForbiddenError
    from kinformer.exceptions import IndexNotFoundError as IndexNotFoundError
    from kinformer.exceptions import InvalidError as InvalidError
    from kinformer.exceptions import KeyFuncError as KeyFuncError
    from kinformer.exceptions import KinformerError as KinformerError
    from kinformer.exceptions import LeadershipLostError as LeadershipLostError
    from kinformer.exceptions import NotFoundError as NotFoundError
    from kinformer.exceptions import NotSyncedError as NotSyncedError
    from kinformer.exceptions import ResourceVersionTooLargeError as ResourceVersionTooLargeError
    from kinformer.exceptions import SelectorError as SelectorError
    from kinformer.exceptions import ServerError as ServerError
    from kinformer.exceptions import StoppedError as StoppedError
    from kinformer.exceptions import TooManyRequestsError as TooManyRequestsError
    from kinformer.exceptions import UnauthorizedError as UnauthorizedError
    from kinformer.exceptions import WatchError as WatchError
    from kinformer.informer.factory import SharedInformerFactory as SharedInformerFactory
    from kinformer.informer.informer import SharedInformer as SharedInformer
    from kinformer.informer.statistics import InformerStatistics as InformerStatistics
    from kinformer.informer.typed import with_model as with_model
    from kinformer.informer.wait_for import is_gone as is_gone
    from kinformer.informer.wait_for import wait_for as wait_for
    from kinformer.leaderelection.leader_election import LeaderElectionHealth as LeaderElectionHealth
    from kinformer.leaderelection.leader_election import LeaderElector as LeaderElector
    from kinformer.list_watcher import ListerWatcher as ListerWatcher
    from kinformer.list_watcher import ListOptions as ListOptions
    from kinformer.list_watcher import ListPage as ListPage
    from kinformer.list_watcher import WatchEvent as WatchEvent
    from kinformer.listwatch.list_watch import ListWatch as ListWatch
    from kinformer.manager.manager import Manager as Manager
    from kinformer.metrics import Metrics as Metrics
    from kinformer.objects.conditions import Condition as Condition
    from kinformer.objects.conditions import condition_of as condition_of
    from kinformer.objects.conditions import has_condition as has_condition
    from kinformer.objects.conditions import with_conditions as with_conditions
    from kinformer.objects.meta import DeletedFinalStateUnknown as DeletedFinalStateUnknown
    from kinformer.objects.meta import GroupVersionResource as GroupVersionResource
    from kinformer.objects.meta import meta_namespace_key as meta_namespace_key
    from kinformer.objects.meta import split_meta_namespace_key as split_meta_namespace_key
    from kinformer.objects.object import KubeObject as KubeObject
    from kinformer.objects.object import OwnerReference as OwnerReference
    from kinformer.objects.owner_references import controller_of as controller_of
    from kinformer.objects.owner_references import owned_by as owned_by
    from kinformer.objects.owner_references import owner_reference as owner_reference
    from kinformer.objects.selectors import LabelSelector as LabelSelector
    from kinformer.processor.event_stream import EventStream as EventStream
    from kinformer.processor.event_stream import InformerEvent as InformerEvent
    from kinformer.processor.handler import HandlerRegistration as HandlerRegistration
    from kinformer.queue.delta_fifo import Delta as Delta
    from kinformer.queue.delta_fifo import DeltaFIFO as DeltaFIFO
    from kinformer.queue.delta_fifo import DeltaType as DeltaType
    from kinformer.reflector.health import InformerHealth as InformerHealth
    from kinformer.reflector.reflector import Reflector as Reflector
    from kinformer.reflector.reflector import (
        namespace_keyed_indexer_and_reflector as namespace_keyed_indexer_and_reflector,
    )
    from kinformer.sharding.gate import ShardLostError as ShardLostError
    from kinformer.sharding.membership import ShardMembershipHealth as ShardMembershipHealth
    from kinformer.sharding.sharded_controller import ShardedController as ShardedController
    from kinformer.snapshot.option import Snapshot as Snapshot
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

__version__ = "0.1.0"

_PUBLIC_MODULES: dict[str, tuple[str, ...]] = {
    "_runtime.backoff": ("Backoff",),
    "client.client": ("Client",),
    "queue.delta_fifo": ("Delta", "DeltaFIFO", "DeltaType"),
    "processor.event_stream": ("EventStream", "InformerEvent"),
    "exceptions": (
        "APIError",
        "AlreadyExistsError",
        "BadRequestError",
        "ConfigError",
        "ConflictError",
        "DecodeError",
        "ExpiredError",
        "ForbiddenError",
        "IndexNotFoundError",
        "InvalidError",
        "KeyFuncError",
        "KinformerError",
        "LeadershipLostError",
        "NotFoundError",
        "NotSyncedError",
        "ResourceVersionTooLargeError",
        "SelectorError",
        "ServerError",
        "StoppedError",
        "TooManyRequestsError",
        "UnauthorizedError",
        "WatchError",
    ),
    "informer.factory": ("SharedInformerFactory",),
    "processor.handler": ("HandlerRegistration",),
    "reflector.health": ("InformerHealth",),
    "cache.indexer": ("Indexer",),
    "informer.informer": ("SharedInformer",),
    "leaderelection.leader_election": ("LeaderElectionHealth", "LeaderElector"),
    "listwatch.list_watch": ("ListWatch",),
    "list_watcher": ("ListOptions", "ListPage", "ListerWatcher", "WatchEvent"),
    "cache.lister": ("Lister",),
    "objects.meta": (
        "DeletedFinalStateUnknown",
        "GroupVersionResource",
        "meta_namespace_key",
        "split_meta_namespace_key",
    ),
    "objects.object": ("KubeObject", "OwnerReference"),
    "reflector.reflector": ("Reflector", "namespace_keyed_indexer_and_reflector"),
    "objects.selectors": ("LabelSelector",),
    "snapshot.option": ("Snapshot",),
    "sharding.gate": ("ShardLostError",),
    "sharding.membership": ("ShardMembershipHealth",),
    "sharding.sharded_controller": ("ShardedController",),
    "informer.statistics": ("InformerStatistics",),
    "cache.store": ("Store",),
    "workqueue.work_queue": ("LOW_PRIORITY", "QueueStatistics", "WorkQueue"),
    "workqueue.delaying_queue": ("DelayingQueue", "RateLimitingQueue"),
    "workqueue.rate_limiters": (
        "BucketRateLimiter",
        "ExponentialFailureRateLimiter",
        "FastSlowRateLimiter",
        "MaxOfRateLimiter",
        "RateLimiter",
    ),
    "metrics": ("Metrics",),
    "controller.controller": ("Controller",),
    "controller.metrics": ("ControllerStatistics",),
    "controller.reconcile": ("Reason", "Request", "Result", "TerminalError"),
    "informer.wait_for": ("is_gone", "wait_for"),
    "controller.predicates": (
        "Predicate",
        "all_of",
        "annotations_changed",
        "any_of",
        "generation_changed",
        "labels_changed",
        "not_",
        "resource_version_changed",
        "resynced",
    ),
    "controller.applier": ("Applier",),
    "objects.owner_references": ("controller_of", "owned_by", "owner_reference"),
    "controller.finalizers": ("Finalizer",),
    "objects.conditions": ("Condition", "condition_of", "has_condition", "with_conditions"),
    "controller.status": ("write_status",),
    "controller.event_recorder": ("EventRecorder", "EventRecorderStatistics"),
    "manager.manager": ("Manager",),
    "informer.typed": ("with_model",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC_MODULES.items() for name in names}

# Equal to the names above; written out, because type checkers read it.
__all__ = [
    "LOW_PRIORITY",
    "APIError",
    "AlreadyExistsError",
    "Applier",
    "Backoff",
    "BadRequestError",
    "BucketRateLimiter",
    "Client",
    "Condition",
    "ConfigError",
    "ConflictError",
    "Controller",
    "ControllerStatistics",
    "DecodeError",
    "DelayingQueue",
    "DeletedFinalStateUnknown",
    "Delta",
    "DeltaFIFO",
    "DeltaType",
    "EventRecorder",
    "EventRecorderStatistics",
    "EventStream",
    "ExpiredError",
    "ExponentialFailureRateLimiter",
    "FastSlowRateLimiter",
    "Finalizer",
    "ForbiddenError",
    "GroupVersionResource",
    "HandlerRegistration",
    "IndexNotFoundError",
    "Indexer",
    "InformerEvent",
    "InformerHealth",
    "InformerStatistics",
    "InvalidError",
    "KeyFuncError",
    "KinformerError",
    "KubeObject",
    "LabelSelector",
    "LeaderElectionHealth",
    "LeaderElector",
    "LeadershipLostError",
    "ListOptions",
    "ListPage",
    "ListWatch",
    "Lister",
    "ListerWatcher",
    "Manager",
    "MaxOfRateLimiter",
    "Metrics",
    "NotFoundError",
    "NotSyncedError",
    "OwnerReference",
    "Predicate",
    "QueueStatistics",
    "RateLimiter",
    "RateLimitingQueue",
    "Reason",
    "Reflector",
    "Request",
    "ResourceVersionTooLargeError",
    "Result",
    "SelectorError",
    "ServerError",
    "ShardLostError",
    "ShardMembershipHealth",
    "ShardedController",
    "SharedInformer",
    "SharedInformerFactory",
    "Snapshot",
    "StoppedError",
    "Store",
    "TerminalError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "WatchError",
    "WatchEvent",
    "WorkQueue",
    "all_of",
    "annotations_changed",
    "any_of",
    "condition_of",
    "controller_of",
    "generation_changed",
    "has_condition",
    "is_gone",
    "labels_changed",
    "meta_namespace_key",
    "namespace_keyed_indexer_and_reflector",
    "not_",
    "owned_by",
    "owner_reference",
    "resource_version_changed",
    "resynced",
    "split_meta_namespace_key",
    "wait_for",
    "with_conditions",
    "with_model",
    "write_status",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'kinformer' has no attribute {name!r}")
    value = getattr(import_module(f"kinformer.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
