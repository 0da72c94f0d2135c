# The public names of this package. `__init__.py` reads this file.

from kinformer.controller.applier import Applier as Applier
from kinformer.controller.controller import Controller as Controller
from kinformer.controller.event_recorder import EventRecorder as EventRecorder
from kinformer.controller.event_recorder import EventRecorderStatistics as EventRecorderStatistics
from kinformer.controller.finalizers import Finalizer as Finalizer
from kinformer.controller.managed import ManagedController as ManagedController
from kinformer.controller.metrics import ControllerStatistics as ControllerStatistics
from kinformer.controller.predicates import Predicate as Predicate
from kinformer.controller.predicates import annotations_changed as annotations_changed
from kinformer.controller.predicates import generation_changed as generation_changed
from kinformer.controller.predicates import labels_changed as labels_changed
from kinformer.controller.predicates import resource_version_changed as resource_version_changed
from kinformer.controller.predicates import resynced as resynced
from kinformer.controller.reconcile import Reason as Reason
from kinformer.controller.reconcile import Request as Request
from kinformer.controller.reconcile import Result as Result
from kinformer.controller.status import write_status as write_status
