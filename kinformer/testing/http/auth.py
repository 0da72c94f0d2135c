"""Authentication by bearer tokens and authorization by a list of rules, answered as kube-apiserver answers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kinformer.exceptions import ConfigError
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.api.tokens import ISSUER
from kinformer.testing.http.certificates import Identity
from kinformer.testing.kinds.resources import selected_name
from kinformer.testing.kinds.status import failure, forbidden, unauthorized
from kinformer.testing.logins import names_by_token

__all__ = ["ANONYMOUS", "AccessControl", "User"]

ANONYMOUS = "system:anonymous"
ADMIN = "kubernetes-admin"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
# RBAC's defaults: the public paths for every user, discovery for every user that is known.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")

# ... and the rights of the ClusterRole system:basic-user.
_ABOUT_ONESELF = (
    "authentication.k8s.io/v1/selfsubjectreviews",
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
    "authorization.k8s.io/v1/selfsubjectrulesreviews",
)


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


class User(NamedTuple):
    """A user as authentication found it: UserInfo of authentication.k8s.io."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, list[str]] = {}
    audiences: tuple[str, ...] = (ISSUER,)  # for which its token is good

    def info(self) -> dict[str, Any]:
        """The UserInfo of a review."""
        found: dict[str, Any] = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        found["groups"] = list(self.groups)
        return {**found, "extra": dict(self.extra)} if self.extra else found

    @property
    def is_admin(self) -> bool:
        """True for a user that may do everything, whatever the rules say."""
        return self.name == ADMIN or MASTERS in self.groups


_NO_USER = User(ANONYMOUS, ("system:unauthenticated",))


class AccessControl:
    """Authentication by `users`, authorization by `rules`; None allows all.

    `users` is token -> name, or names alone; a rule is (name, verb, resource). A resource is `"v1/pods"`, a
    subresource `"v1/pods/status"`, `"*"` is any verb or resource, and watch is a verb of its own. A client without a
    user sends `admin_token` if tokens are asked for, or if `named` is True, which means that all clients are known.
    """

    def __init__(
        self,
        users: Iterable[str] | Mapping[str, str] | None = None,
        rules: Iterable[tuple[str, str, Any]] | None = None,
        *,
        named: bool = False,
    ) -> None:
        self._named = named
        self.users = None if users is None else names_by_token(users)
        self.rules = (
            None if rules is None else {(name, verb, selected_name(resource)) for name, verb, resource in rules}
        )
        self.admin_token = secrets.token_hex(16)
        self._issued: dict[str, User] = {}  # tokens of service accounts

    @property
    def enforced(self) -> bool:
        """True where tokens are looked at."""
        return self.users is not None or self.rules is not None

    def token(self, user: str | None) -> str | None:
        """The token of a user, None for the anonymous. Raises `ConfigError` for a user that is not there."""
        if user == ANONYMOUS:
            return None
        if user is None:
            return self.admin_token if self.enforced or self._named else None
        for token, name in (self.users or {}).items():
            if name == user:
                return token
        known = ", ".join(sorted((self.users or {}).values())) or "none"
        raise ConfigError(f"users: there is no user {user!r}; known: {known}")

    def authenticate(self, headers: Mapping[str, str], identity: Identity | None = None) -> User:
        """Find the user of a request: by its client certificate, else by its token.

        Without `users` and `rules` a token that is not known is ignored. Raises a 401 `StatusError` for one otherwise.
        """
        if identity is not None:
            extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={identity.fingerprint}"]}
            return User(identity.name, (*identity.groups, AUTHENTICATED), extra=extra)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _NO_USER
        user = self.user_of(token.strip())
        if user is None and self.enforced:
            raise unauthorized()
        return user or _NO_USER

    def is_allowed(self, user: User, verb: str, resource: str) -> bool:
        """True if a rule says so; `resource` as in the rules."""
        rules = self.rules
        if rules is None or user.is_admin:
            return True
        return any((user.name, v, r) in rules for v in (verb, "*") for r in (resource, "*"))

    def rules_of(self, user: User) -> list[tuple[str, str]]:
        """(verb, resource) of a user's rules, in order."""
        if self.rules is None or user.is_admin:
            return [("*", "*")]
        return sorted((verb, resource) for name, verb, resource in self.rules if name == user.name)

    def user_of(self, token: str) -> User | None:
        """Return the user that a token belongs to, or None."""
        if token == self.admin_token:
            return User(ADMIN, (MASTERS, AUTHENTICATED), ADMIN)
        name = (self.users or {}).get(token)
        return self._issued.get(token) if name is None else User(name, (AUTHENTICATED,), name)

    def add_token(self, token: str, user: User) -> None:
        """Let a token be used by a user."""
        self._issued[token] = user

    def authorize(self, user: User, info: RequestInfo) -> None:
        """A 403 `StatusError` for what the rules do not list."""
        if self.rules is None or user.is_admin:
            return
        if not info.plural:
            self._authorize_path(user, info)
            return
        known = user.name != ANONYMOUS
        if self.is_allowed(user, info.verb, info.resource) or (known and info.resource in _ABOUT_ONESELF):
            return
        plural = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        text = f'User "{user.name}" cannot {info.verb} resource "{plural}" in API group "{info.group}" {where}'
        raise forbidden(info.group, info.plural, info.name, text)

    def _authorize_path(self, user: User, info: RequestInfo) -> None:
        if _under(info.path, _PUBLIC) or (user.name != ANONYMOUS and _under(info.path, _DISCOVERY)):
            return
        raise failure(
            403,
            f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"',
            details={},
            headers={"X-Content-Type-Options": "nosniff"},
        )
