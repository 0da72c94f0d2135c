"""A request being handled: its target, its body, and its response in the requested form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kinformer.apiserver.accept import negotiate
from kinformer.apiserver.options import boolean_of, integer_of
from kinformer.apiserver.status import bad_request, cause, internal, invalid_options, success
from kinformer.apiserver.views import FormView
from kinformer.objects.paths.printing import go_json
from kinformer.testing.api.delete import DeleteOptions
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.api.write_options import WriteOptions, dry_run_causes, read_write_options
from kinformer.testing.codec.bodies import complaint_places, go_kind, parse_body, read_body
from kinformer.testing.features import Features
from kinformer.testing.http.auth import User
from kinformer.testing.http.struck_response import StruckResponse
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.metadata_rules import json_text
from kinformer.testing.store.forms import StoredCodec
from kinformer.testing.store.ledger import WriteResult

__all__ = ["HTTPCall"]

MAX_STORED = 1536 * 1024  # bytes (etcd, --max-request-bytes). Direct calls may store more
_POLICIES = ("Foreground", "Background", "Orphan")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_DELETE_FIELDS: Mapping[str, tuple[type, str]] = {  # with Go's type name, for the error
    "gracePeriodSeconds": (int, "int64"),
    "preconditions": (dict, "v1.Preconditions"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
}
_PRECONDITIONS: Mapping[str, tuple[type, str]] = {"uid": (str, "types.UID"), "resourceVersion": (str, "string")}
Object = dict[str, Any]
_USUAL = Features()


def _check_types(fields: Mapping[str, tuple[type, str]], value: Object, where: str) -> None:
    for name, (expected, go) in fields.items():
        if value.get(name) is not None and type(value[name]) is not expected:
            raise bad_request(
                f"json: cannot unmarshal {go_kind(value[name])} into Go struct field {where}.{name} of type {go}"
            )


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


@dataclass(slots=True)
class HTTPCall:
    """A request, the parsed parts of its path, and the writer of its response.

    `ResourceEndpoints` sets `features` when it takes the request over. A fault sets `behind`.
    """

    request: web.BaseRequest
    params: Mapping[str, str]
    info: RequestInfo
    response: StruckResponse
    user: User
    features: Features = _USUAL
    behind: int = 0  # revisions by which a cache lags, for reads that accept cached data

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.request.headers.get("Content-Type", "").partition(";")[0].strip()

    def namespace(self, resource: ResourceType) -> str:
        """Return the namespace in the path, or "" for a cluster-scoped kind."""
        return self.info.namespace if resource.namespaced else ""

    def write_options(self, *, patch: str = "") -> WriteOptions:
        """Parse the query of a write. Raises a 422 `StatusError`."""
        agent = self.request.headers.get("User-Agent", "")
        options = read_write_options(self.params, agent, _KINDS.get(self.info.method, ""), patch=patch)
        options.warnings = self.response.warnings  # failures carry warnings too
        options.user = self.user.info()
        return options

    async def read_object(self, kind: str, options: WriteOptions | None = None) -> Object:
        """Return the sent object.

        Its duplicate fields go to the options. Raises a 400, 413, 415 or 500 `StatusError`.
        """
        body = await read_body(self.request)
        if len(body) > MAX_STORED:
            raise internal("etcdserver: request is too large")
        checked = options is not None and options.validation != "Ignore"
        duplicates: list[str] | None = options.duplicates if options is not None and checked else None
        parsed = parse_body(body, kind, self.request.headers.get("Content-Type", ""), duplicates)
        if duplicates:
            assert options is not None, "duplicates are only found with options"
            options.places = complaint_places(body)
        # YAML becomes JSON through a Go map, whose keys are sorted.
        return _sorted(parsed) if "yaml" in self.content_type else parsed

    async def send_done(self, written: WriteResult) -> None:
        """Send the Status returned for a binding or an eviction."""
        status = success(code=201)
        if self.features.delete_versions:
            status["metadata"] = {"resourceVersion": str(written.stored.revision)}
        await self.response.send_json(status, status=201)

    async def send_object(self, value: Object, *, status: int = 200) -> None:
        """Send an object that is not stored."""
        media = negotiate(self.request.headers, tables=False).media
        await self.response.send_encoded(go_json(value) + b"\n", media, status=status)

    async def send_written(self, resource: ResourceType, written: WriteResult, options: WriteOptions) -> None:
        """Send the object after a write."""
        form = negotiate(self.request.headers, builtin=resource.builtin, drops=self.features.drop_managed_fields)
        body = FormView(StoredCodec(resource, drop=form.drop), form).body(written.stored)
        await self.response.send_encoded(body, form.media, status=201 if written.created else 200)

    async def read_delete_options(self) -> DeleteOptions:
        """Parse the body and query of a DELETE. Raises a 400 or 422 `StatusError`."""
        raw = await read_body(self.request)
        body = parse_body(raw, "DeleteOptions", self.content_type) if raw.strip() else {}
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(
                f'{body["kind"]} in version "{body.get("apiVersion", "v1")}" cannot be handled as a DeleteOptions:'
                f' no kind "{body["kind"]}" is registered for version "{body.get("apiVersion", "v1")}" in scheme'
                ' "pkg/runtime/scheme.go:111"'
                if "/" in body.get("apiVersion", "v1")
                else f"incorrect kind: {body['kind']}"
            )
        return self.parse_delete_options(body)

    def parse_delete_options(self, body: Object) -> DeleteOptions:
        """Parse DeleteOptions from the body or, only if there is no body, from the query."""
        _check_types(_DELETE_FIELDS, body, "DeleteOptions")
        conditions = body.get("preconditions") or {}
        _check_types(_PRECONDITIONS, conditions, "Preconditions.preconditions")
        params: Mapping[str, str] = {} if body else self.params
        grace, policy = body.get("gracePeriodSeconds"), body.get("propagationPolicy")
        if "gracePeriodSeconds" in params:
            grace = integer_of(params, "gracePeriodSeconds")
        policy = policy or params.get("propagationPolicy", "")
        dry_run = body.get("dryRun") or ([params["dryRun"]] if "dryRun" in params else [])
        orphan = body.get("orphanDependents")
        orphan = boolean_of(params, "orphanDependents") if "orphanDependents" in params else orphan
        causes = dry_run_causes(dry_run)
        if orphan is not None and policy:
            message = f"Invalid value: {json_text(policy)}: orphanDependents and deletionPropagation cannot be both set"
            causes.append(cause("FieldValueInvalid", message, "propagationPolicy"))
        elif policy and policy not in _POLICIES:
            listed = ", ".join(f'"{name}"' for name in [*_POLICIES, "nil"])
            message = f"Unsupported value: {json_text(policy)}: supported values: {listed}"
            causes.append(cause("FieldValueNotSupported", message, "propagationPolicy"))
        if causes:
            raise invalid_options("DeleteOptions", causes)
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        return DeleteOptions(
            user=self.user.info(),
            grace=grace,
            uid=conditions.get("uid", ""),
            resource_version=conditions.get("resourceVersion", ""),
            propagation=policy or "",
            dry_run=bool(dry_run),
        )
