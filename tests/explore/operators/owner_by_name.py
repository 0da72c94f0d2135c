"""Ownership without the uid: a Database takes the password of its predecessor, which had the same name.

k8ssandra/cass-operator#118 (datastax/cass-operator#412, found by Sieve): what belongs to an object is looked up by its
name instead of its uid.
"""

from __future__ import annotations

from typing import Any

from kinformer import AlreadyExistsError, Client, Controller, KubeObject, Request, SharedInformerFactory
from kinformer.controller import write_status
from kinformer.objects import controller_of, owned_by
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition

FINDS = "no_password_is_used_twice"
STORY = r"creates example.com/v1/databases default/a"
DATABASES, SECRETS = "example.com/v1/databases", "v1/secrets"


def secret_of(database: KubeObject) -> dict[str, Any]:
    metadata = {"name": database.name, "namespace": database.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": database.uid}}
    return owned_by(secret, database)


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            databases, secrets = factory.for_resource(DATABASES), factory.for_resource(SECRETS)

            async def reconcile(request: Request) -> None:
                database, secret = databases.by_key.get(request.key), secrets.by_key.get(request.key)
                if database is None:
                    return
                if secret is None:
                    path = f"/api/v1/namespaces/{database.namespace}/secrets"
                    try:
                        secret = await client.request("POST", path, body=secret_of(database))
                    except AlreadyExistsError:
                        return  # the cache is going to tell
                owner = controller_of(secret)
                if self.mended and (owner is None or owner.uid != database.uid):
                    return  # of a predecessor; that it is collected triggers the next one
                await write_status(client, DATABASES, database, {"secret": secret.uid})

            await Controller(reconcile).for_(databases).owns(secrets, "Database").run()


def no_password_is_used_twice(state: ClusterState) -> None:
    secrets = {secret["metadata"]["uid"]: secret["metadata"] for secret in state.list(SECRETS)}
    for database in state.list(DATABASES):
        used = database.get("status", {}).get("secret")
        if used is not None:
            assert used in secrets, "a database has a password that is gone"
            assert secrets[used]["ownerReferences"][0]["uid"] == database["metadata"]["uid"], "it is another one's"


def each_has_a_password(state: ClusterState) -> None:
    assert all(database["status"]["secret"] for database in state.list(DATABASES))


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Database"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Database", "a")), world.delete(DATABASES, "default/a"))
    world.script(world.create(custom("Database", "a")))
    world.always(no_password_is_used_twice)
    world.eventually(each_has_a_password)
