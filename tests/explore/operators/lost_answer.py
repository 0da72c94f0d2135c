"""Duplicate creation after a lost answer: each Backup gets one Job, under a name that is made up for each attempt.

A create that timed out may have been done: jupyterhub/kubespawner#433 (review: "create it successfully, but timeout is
hit"). Written by kubernetes_asyncio's calls.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import aiohttp
from kubernetes_asyncio.client import ApiException, BatchV1Api

from kinformer import Client, Controller, KubeObject, Request, SharedInformerFactory
from kinformer.objects import owned_by
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition, names

FINDS = "at_most_one_job"
STORY = r"create batch/v1/jobs default: 201, but there is no answer"
BACKUPS, JOBS = "example.com/v1/backups", "batch/v1/jobs"


def job_of(backup: KubeObject, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": backup.namespace, "labels": {"backup": backup.name}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "backup", "image": "backup"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
    return owned_by(job, backup)


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            backups, jobs = factory.for_resource(BACKUPS), factory.for_resource(JOBS)

            async def reconcile(request: Request) -> None:
                backup = backups.by_key.get(request.key)
                if backup is not None and not [job for job in jobs.lister if job.labels.get("backup") == backup.name]:
                    await self.create_job(BatchV1Api(client.api_client), backup)

            await Controller(reconcile).for_(backups).owns(jobs, "Backup").run()

    async def create_job(self, batch: BatchV1Api, backup: KubeObject) -> None:
        for attempt in range(3):
            name = backup.name if self.mended else f"{backup.name}-{uuid.uuid4().hex[:5]}"
            try:
                await batch.create_namespaced_job(backup.namespace, job_of(backup, name))
            except ApiException as error:
                if error.status == 409 or attempt == 2:
                    return  # another attempt has made it, or the next event is going to try
                await asyncio.sleep(0.5)
            except aiohttp.ClientError:
                if attempt == 2:
                    raise
            else:
                return


def at_most_one_job(state: ClusterState) -> None:
    backups = [job["metadata"]["labels"]["backup"] for job in state.list(JOBS)]
    assert len(backups) == len(set(backups)), f"Jobs of {backups}"


def each_has_its_job(state: ClusterState) -> None:
    assert names(state.list(BACKUPS)) == {job["metadata"]["labels"]["backup"] for job in state.list(JOBS)}


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Backup"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Backup", "a")), world.create(custom("Backup", "b")))
    world.script(world.delete(BACKUPS, "default/a"))
    world.always(at_most_one_job)
    world.eventually(each_has_its_job)
