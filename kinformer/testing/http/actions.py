"""Actions on paths that store no object: scale, binding, eviction, tokens, reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinformer.apiserver.status import bad_request, failure, internal, method_not_allowed, not_found
from kinformer.testing.api.delete import Deleter
from kinformer.testing.api.subresources import bind_pod, mark_evicted, scale_of, use_disruption_budget, with_scale
from kinformer.testing.api.tokens import Tokens, token_id
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.codec.bodies import parse_patch, parse_yaml, read_body
from kinformer.testing.codec.patch import patch_function, patch_kind
from kinformer.testing.http.auth import AccessControl, User
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.http.pod_logs import has_logs, send_log
from kinformer.testing.http.reviews import review
from kinformer.testing.kinds.builtins import sent_type
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.forms import decode_stored
from kinformer.testing.store.ownership import FieldManager

__all__ = ["Actions"]

Object = dict[str, Any]


class Actions:
    """The actions of one server."""

    def __init__(self, writer: Writer, deleter: Deleter, access: AccessControl) -> None:
        self._ledger = writer.ledger
        self._writer = writer
        self._deleter = deleter
        self._access = access
        self._tokens = Tokens(writer.ledger)
        self.by_name: Mapping[str, Callable[[HTTPCall, ResourceType], Any]] = {
            "scale": self._scale,
            "binding": self._bind,
            "eviction": self._evict,
            "token": self._token,
            "log": self._log,
            "proxy": self._node_proxy,
            "exec": self._node_proxy,
            "attach": self._node_proxy,
            "portforward": self._node_proxy,
        }

    async def review(self, call: HTTPCall, resource: ResourceType) -> None:
        """Answer the POST of a review."""
        if call.info.method != "POST":
            raise method_not_allowed()
        options = call.write_options()
        body = await call.read_object(resource.kind, options)
        now = self._ledger.timestamp()
        reviewed = review(self._access, call.user, resource, call.info.namespace, body, options.manager, now)
        await call.send_object(reviewed, status=201)

    async def binding(self, call: HTTPCall, resource: ResourceType) -> None:
        """Answer a POST to the collection of bindings, the old way to assign a pod."""
        if call.info.method != "POST" or call.info.name:
            raise method_not_allowed()
        options = call.write_options()
        body = await self._read(call, "Binding", options)
        name = body["metadata"].get("name", "")
        if not name:
            raise bad_request("Name parameter required.")
        pods = self._ledger.registry.find("v1/pods")
        await call.send_done(bind_pod(self._writer, pods, call.info.namespace, name, body, options))

    async def _read(self, call: HTTPCall, kind: str, options: WriteOptions) -> Object:
        """Read an object that is not stored. Raises a 400 `StatusError`."""
        body = await call.read_object(kind, options)
        return self._writer.decode_sent(sent_type(kind), call.info.namespace, body, options)

    async def _scale(self, call: HTTPCall, resource: ResourceType) -> None:
        info, namespace = call.info, call.namespace(resource)
        if info.method in ("GET", "HEAD"):
            stored = self._ledger.stored(resource, namespace, info.name)
            await call.send_object(scale_of(resource, decode_stored(resource, stored)))
            return
        if info.method == "PUT":
            options = call.write_options()
            apply = _replaced_by(await self._read(call, "Scale", options))
        else:
            kind = patch_kind(call.content_type, resource, "scale")
            options = call.write_options(patch=kind)
            raw = await read_body(call.request)
            patch = parse_yaml(raw) if kind == "apply" else parse_patch(raw)
            apply = patch_function("merge" if kind in ("apply", "strategic") else kind, patch, resource.node)

        def change(obj: Object) -> Object:
            return with_scale(resource, obj, apply(scale_of(resource, obj)), info.name)

        # The scale's own fields get an entry without a time (scale/strategy, managedFields of the parent).
        options.manager = FieldManager(options.manager.name, options.manager.operation, "scale", timed=False)
        written = self._writer.patch(resource, namespace, info.name, change, options, subresource="scale")
        await call.send_object(scale_of(resource, decode_stored(resource, written.stored)))

    async def _bind(self, call: HTTPCall, resource: ResourceType) -> None:
        options = call.write_options()
        body = await self._read(call, "Binding", options)
        if body["metadata"].get("name") != call.info.name:
            raise bad_request("name in URL does not match name in Binding object")
        await call.send_done(bind_pod(self._writer, resource, call.info.namespace, call.info.name, body, options))

    async def _evict(self, call: HTTPCall, resource: ResourceType) -> None:
        write = call.write_options()
        body = await self._read(call, "Eviction", write)
        info = call.info
        if body["metadata"].get("name") != info.name:
            raise bad_request("name in URL does not match name in Eviction object")
        given = body.get("deleteOptions") or {}
        options = call.parse_delete_options(given)
        options.dry_run = options.dry_run or write.dry_run
        stored = self._ledger.stored(resource, info.namespace, info.name)
        use_disruption_budget(self._ledger, decode_stored(resource, stored), dry_run=options.dry_run)
        if not options.dry_run:
            mark_evicted(self._writer, resource, info.namespace, info.name)
        await call.send_done(self._deleter.delete(resource, info.namespace, info.name, options))

    async def _token(self, call: HTTPCall, resource: ResourceType) -> None:
        options = call.write_options()
        body = await self._read(call, "TokenRequest", options)
        stored = self._ledger.stored(resource, call.info.namespace, call.info.name)
        account = decode_stored(resource, stored)
        issued = self._tokens.issue(account, body, options.manager)
        token = issued["status"]["token"]
        self._access.add_token(token, _service_account(account["metadata"], token, issued["spec"]["audiences"]))
        await call.send_object(issued, status=201)

    async def _log(self, call: HTTPCall, resource: ResourceType) -> None:
        stored = self._ledger.stored(resource, call.namespace(resource), call.info.name)
        obj, container = decode_stored(resource, stored), call.params.get("container", "")
        if has_logs(obj, container):
            _check_container(stored.name, obj["spec"], container)
            await send_log(call, self._ledger, resource, obj)
        else:
            await self._node_proxy(call, resource)

    async def _node_proxy(self, call: HTTPCall, resource: ResourceType) -> None:
        """Refuse a request that a real server would forward to a kubelet, because there is none."""
        stored = self._ledger.stored(resource, call.namespace(resource), call.info.name)
        obj = decode_stored(resource, stored)
        spec, below = obj.get("spec") or {}, call.info.subresource
        node = spec.get("nodeName")
        if resource.kind != "Pod":
            raise failure(503, "no endpoints available for the proxy: there is no kubelet behind this server")
        if below == "proxy" and not (obj.get("status") or {}).get("podIP"):
            raise bad_request("address not allowed")
        if below in ("log", "exec", "attach"):
            _check_container(stored.name, spec, call.params.get("container", ""))
        if not node and below == "log":
            await call.response.send(b"", status=204)
            return
        if not node:
            raise bad_request(f"pod {stored.name} does not have a host assigned")
        nodes = self._ledger.registry.find("v1/nodes")
        if self._ledger.collection(nodes).get(node) is None:
            # pod/rest/log.go asks for the node and reports it as a pod
            raise not_found("", "pods" if below == "log" else "nodes", node)
        raise internal(f'Get "https://{node}:10250/": dial tcp: lookup {node}: no such host')


def _check_container(pod: str, spec: Object, name: str) -> None:
    """Raise a 400 `StatusError` if a pod has no such container, or several and none is named."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    names = [container.get("name", "") for kind in kinds for container in spec.get(kind) or []]
    if not name and len(spec.get("containers") or []) > 1:
        raise bad_request(f"a container name must be specified for pod {pod}, choose one of: [{' '.join(names)}]")
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod}")


def _service_account(metadata: Object, token: str, audiences: list[str]) -> User:
    """Return the user of a service account that authenticates with one of its tokens."""
    namespace = metadata["namespace"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    extra = {"authentication.kubernetes.io/credential-id": [f"JTI={token_id(token)}"]}
    name = f"system:serviceaccount:{namespace}:{metadata['name']}"
    return User(name, groups, metadata["uid"], extra, tuple(audiences))


def _replaced_by(body: Object) -> Callable[[Object], Object]:
    """Return a function that replaces an object with the body of a PUT."""
    return lambda _: body
