"""Who asks, and whether they may: bearer tokens and a list of rules, answered as kube-apiserver answers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from kinformer.exceptions import ConfigError
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.kinds.resources import selected_name
from kinformer.testing.kinds.status import failure, forbidden, unauthorized
from kinformer.testing.logins import names_by_token

__all__ = ["ANONYMOUS", "AccessControl"]

ANONYMOUS = "system:anonymous"
ADMIN = "kubernetes-admin"
# RBAC's defaults: the public paths for everybody, discovery for whoever is known.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")

# ... and what the ClusterRole system:basic-user allows.
_ABOUT_ONESELF = (
    "authentication.k8s.io/v1/selfsubjectreviews",
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
    "authorization.k8s.io/v1/selfsubjectrulesreviews",
)


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


class AccessControl:
    """Authentication by `users`, authorization by `rules`; None allows all.

    `users` is token -> name, or names alone; a rule is (name, verb, resource). A resource is `"v1/pods"`, a
    subresource `"v1/pods/status"`, `"*"` is any verb or resource, and watch is a verb of its own. `admin_token` is
    what a client without a user uses where tokens are asked for.
    """

    def __init__(
        self,
        users: Iterable[str] | Mapping[str, str] | None = None,
        rules: Iterable[tuple[str, str, Any]] | None = None,
    ) -> None:
        self.users = None if users is None else names_by_token(users)
        self.rules = (
            None if rules is None else {(name, verb, selected_name(resource)) for name, verb, resource in rules}
        )
        self.admin_token = secrets.token_hex(16)

    @property
    def enforced(self) -> bool:
        """True where tokens are looked at."""
        return self.users is not None or self.rules is not None

    def token(self, user: str | None) -> str | None:
        """The token of a user, None for the anonymous. Raises `ConfigError` for a user that is not there."""
        if user == ANONYMOUS:
            return None
        if user is None:
            return self.admin_token if self.enforced else None
        for token, name in (self.users or {}).items():
            if name == user:
                return token
        known = ", ".join(sorted((self.users or {}).values())) or "none"
        raise ConfigError(f"users: there is no user {user!r}; known: {known}")

    def authenticate(self, headers: Mapping[str, str]) -> str:
        """The name of who asks. A 401 `StatusError` for a token that nobody has."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if not self.enforced:
            return ANONYMOUS
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        token = token.strip()
        if token == self.admin_token:
            return ADMIN
        name = (self.users or {}).get(token)
        if name is None:
            raise unauthorized()
        return name

    def is_allowed(self, user: str, verb: str, resource: str) -> bool:
        """Whether a rule says so; `resource` as in the rules."""
        rules = self.rules
        if rules is None or user == ADMIN:
            return True
        return any((user, v, r) in rules for v in (verb, "*") for r in (resource, "*"))

    def rules_of(self, user: str) -> list[tuple[str, str]]:
        """(verb, resource) of a user's rules, in order."""
        if self.rules is None or user == ADMIN:
            return [("*", "*")]
        return sorted((verb, resource) for name, verb, resource in self.rules if name == user)

    def user_of(self, token: str) -> str | None:
        """The name of whose token it is, or None."""
        return ADMIN if token == self.admin_token else (self.users or {}).get(token)

    def add_token(self, token: str, user: str) -> None:
        """Lets a token be used by a user; without users tokens are not looked at."""
        if self.users is not None:
            self.users[token] = user

    def user_info(self, user: str) -> dict[str, Any]:
        """The UserInfo of a user."""
        if user == ANONYMOUS:
            return {"username": user, "groups": ["system:unauthenticated"]}
        if user.startswith("system:serviceaccount:"):
            namespace = user.split(":")[2]
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            return {"username": user, "groups": groups}
        groups = ["system:masters", "system:authenticated"] if user == ADMIN else ["system:authenticated"]
        return {"username": user, "uid": user, "groups": groups}

    def authorize(self, user: str, info: RequestInfo) -> None:
        """A 403 `StatusError` for what the rules do not list."""
        if self.rules is None or user == ADMIN:
            return
        if not info.plural:
            self._authorize_path(user, info)
            return
        if self.is_allowed(user, info.verb, info.resource) or (user != ANONYMOUS and info.resource in _ABOUT_ONESELF):
            return
        plural = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        text = f'User "{user}" cannot {info.verb} resource "{plural}" in API group "{info.group}" {where}'
        raise forbidden(info.group, info.plural, info.name, text)

    def _authorize_path(self, user: str, info: RequestInfo) -> None:
        if _under(info.path, _PUBLIC) or (user != ANONYMOUS and _under(info.path, _DISCOVERY)):
            return
        raise failure(
            403,
            f'forbidden: User "{user}" cannot {info.verb} path "{info.path}"',
            details={},
            headers={"X-Content-Type-Options": "nosniff"},
        )
