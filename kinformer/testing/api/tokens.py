"""Service account tokens, as returned by TokenRequest (pkg/registry/core/serviceaccount/storage/token.go)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import uuid
from typing import Any

from kinformer.apiserver.status import bad_request, conflict, invalid
from kinformer.testing.rules.metadata_rules import invalid_value
from kinformer.testing.store.ledger import Ledger
from kinformer.testing.store.ownership import FieldManager, track_update

__all__ = ["ISSUER", "Tokens", "token_id"]

Object = dict[str, Any]

DEFAULT_LIFE = 3600  # seconds (authentication/v1/defaults.go)
MIN_LIFE = 600
MAX_LIFE = 1 << 32
_BOUND = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}
ISSUER = "https://kubernetes.default.svc.cluster.local"


class Tokens:
    """Issues JSON Web Tokens signed by this server (HS256 with its own key)."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._key = secrets.token_bytes(32)

    def issue(self, account: Object, body: Object, manager: FieldManager) -> Object:
        """Answer a TokenRequest. Raises a 400, 404, 409 or 422 `StatusError`."""
        metadata, spec = account["metadata"], dict(body.get("spec") or {})
        given = body.get("metadata") or {}
        if (given.get("name") or metadata["name"]) != metadata["name"]:
            message = "must match the service account name if specified"
            causes = [invalid_value("metadata.name", given["name"], message)]
            raise invalid("authentication.k8s.io", "TokenRequest", metadata["name"], causes)
        if given.get("uid") and given["uid"] != metadata["uid"]:
            raise conflict(
                "authentication.k8s.io",
                "TokenRequest",
                metadata["name"],
                f"the UID in the token request ({given['uid']}) does not match the UID of the service account"
                f" ({metadata['uid']})",
            )
        life = spec.get("expirationSeconds")
        life = DEFAULT_LIFE if life is None else life
        if not MIN_LIFE <= life <= MAX_LIFE:
            message = "may not specify a duration less than 10 minutes"
            if life > MAX_LIFE:
                message = "may not specify a duration larger than 2^32 seconds"
            causes = [invalid_value("spec.expirationSeconds", life, message)]
            raise invalid("authentication.k8s.io", "TokenRequest", "", causes)
        if spec.get("boundObjectRef"):
            self._check_bound(metadata, spec["boundObjectRef"])
        audiences = spec.get("audiences") or [ISSUER]
        token = self._sign(metadata, audiences, life)
        answer: Object = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                **{name: metadata[name] for name in ("name", "namespace", "uid")},
                "creationTimestamp": self._ledger.timestamp(),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": life,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
        }
        resource = self._ledger.registry.find("v1/serviceaccounts")
        track_update(resource, None, answer, manager, self._ledger.timestamp())
        for entry in answer["metadata"].get("managedFields") or ():
            entry.update(apiVersion="authentication.k8s.io/v1", subresource="token")
        answer["status"] = {"token": token, "expirationTimestamp": self._ledger.timestamp(life)}
        return answer

    def _check_bound(self, account: Object, reference: Object) -> None:
        """Raise a 400, 404 or 409 `StatusError` unless the object exists to which a token is bound."""
        kind, version, name = (reference.get(part) or "" for part in ("kind", "apiVersion", "name"))
        plural = _BOUND.get(kind) if "/" not in version else None
        if plural is None:
            shown = version if "/" in version else f"/{version}"
            raise bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
        resource = self._ledger.registry.find(f"v1/{plural}")
        stored = self._ledger.stored(resource, account["namespace"], name)
        if kind == "Pod":
            runs_as = (self._ledger.read(resource, stored).get("spec") or {}).get("serviceAccountName", "")
            if runs_as != account["name"]:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account["name"]}" to pod running with different'
                    " serviceaccount name."
                )
        if reference.get("uid") and reference["uid"] != stored.uid:
            message = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The"
                " object might have been deleted and then recreated"
            )
            raise conflict("", plural, name, message)

    def _sign(self, metadata: Object, audiences: list[str], life: float) -> str:
        now = int(self._ledger.wall())
        namespace, name = metadata["namespace"], metadata["name"]
        claims = {
            "aud": audiences,
            "exp": now + int(life),
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": metadata["uid"]}},
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        message = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
        signature = hmac.new(self._key, message.encode(), hashlib.sha256).digest()
        return f"{message}.{_base64(signature)}"


def token_id(token: str) -> str:
    """Return the id of a token issued by this server."""
    body = token.split(".")[1]
    claims: Object = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return str(claims["jti"])


def _part(value: Object) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
