"""Changes of a cluster, as a log of what became of what: `replicas 3 to 5`, `ready true to false`, `image 1.2 to 1.3`.

::

    from kinformer.contrib.changes import Changes

    async with SharedInformerFactory(client) as factory:
        factory.for_resource("apps/v1/deployments")
        async with Changes(factory) as changes:
            async for change in changes.stream():
                print(change.time, change.kind, change.key, change.summary)

The log keeps differences, not objects, and is bounded. `kinformer.contrib.event_log` keeps states, for readers that
resume.
Reading order: differences, noise, summary, author, change, causes, log.
Tests: tests/contrib/test_changes.py, tests/contrib/test_causes.py, tests/contrib/test_living_day.py.
"""

from kinformer.contrib.changes.change import Change
from kinformer.contrib.changes.differences import ABSENT, Difference
from kinformer.contrib.changes.log import Changes

__all__ = ["ABSENT", "Change", "Changes", "Difference"]
