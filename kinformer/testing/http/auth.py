"""Authentication by bearer tokens and authorization by rules or RBAC, with kube-apiserver's responses."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from kinformer.apiserver.status import failure, forbidden, unauthorized
from kinformer.exceptions import ConfigError
from kinformer.listening.aiohttp_server import refusal_of
from kinformer.listening.hosts import AllowedHosts
from kinformer.objects.spellings import parts_of
from kinformer.testing.api.rbac import Attempt, RoleBasedAccess, Subject
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.api.tokens import ISSUER
from kinformer.testing.http.certificates import CertificateIdentity
from kinformer.testing.kinds.resources import group_version, selected_name
from kinformer.testing.logins import names_by_token

__all__ = ["ANONYMOUS", "AccessControl", "User", "check_host"]

ANONYMOUS = "system:anonymous"
ADMIN = "kubernetes-admin"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
# RBAC's defaults: every user may read the public paths, and every authenticated user may read discovery.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")

# The rights of the ClusterRole system:basic-user.
_ABOUT_ONESELF = (
    "authentication.k8s.io/v1/selfsubjectreviews",
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
    "authorization.k8s.io/v1/selfsubjectrulesreviews",
)


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def check_host(request: web.BaseRequest, allowed: AllowedHosts) -> None:
    """Raise a `StatusError` if a request names a host that is not allowed, so that web pages of others cannot ask."""
    refusal = refusal_of(request, allowed)
    if refusal is not None:
        status, text = refusal
        raise failure(status, text.strip())


class User(NamedTuple):
    """An authenticated user: the UserInfo of authentication.k8s.io."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, list[str]] = {}
    audiences: tuple[str, ...] = (ISSUER,)  # the audiences of its token

    def info(self) -> dict[str, Any]:
        """Return the UserInfo of a review."""
        user_info: dict[str, Any] = {"username": self.name}
        if self.uid:
            user_info["uid"] = self.uid
        user_info["groups"] = list(self.groups)
        return {**user_info, "extra": dict(self.extra)} if self.extra else user_info

    @property
    def is_admin(self) -> bool:
        """True if the user has all rights, regardless of the rules."""
        return self.name == ADMIN or MASTERS in self.groups


_NO_USER = User(ANONYMOUS, ("system:unauthenticated",))


class AccessControl:
    """Authenticates with `users` and authorizes with `rules` or `roles`. None allows everything.

    `users` is a mapping of token to name, or only names. A rule is (name, verb, resource). A resource is `"v1/pods"`,
    a subresource is `"v1/pods/status"`, `"*"` is any verb or resource, and watch is a separate verb. A client without
    a user sends `admin_token` if tokens are checked, or if `named` is True, which means that every client is
    authenticated.

    `set_token` replaces `users` or `admin_token` while the server runs. `rules` stays the same.
    """

    def __init__(
        self,
        users: Iterable[str] | Mapping[str, str] | None = None,
        rules: Iterable[tuple[str, str, Any]] | None = None,
        *,
        roles: RoleBasedAccess | None = None,
        named: bool = False,
    ) -> None:
        if rules is not None and roles is not None:
            raise ConfigError("rules and rbac cannot be combined: with rbac, the roles in the server decide")
        self._named = named
        self._roles = roles
        self.users = None if users is None else names_by_token(users)
        self.rules = (
            None if rules is None else {(name, verb, selected_name(resource)) for name, verb, resource in rules}
        )
        self.admin_token = secrets.token_hex(16)
        self._issued: dict[str, User] = {}  # tokens of service accounts
        self._revoked: set[str] = set()

    @property
    def enforced(self) -> bool:
        """True if tokens are checked."""
        return self.users is not None or self.rules is not None or self._roles is not None

    @property
    def user_names(self) -> list[str]:
        """The names of the users with a token."""
        return sorted(set((self.users or {}).values()))

    def token(self, user: str | None) -> str | None:
        """Return the token of a user, or None for the anonymous user. Raises `ConfigError` for an unknown user."""
        if user == ANONYMOUS:
            return None
        if user is None:
            return self.admin_token if self.enforced or self._named else None
        for token, name in (self.users or {}).items():
            if name == user:
                return token
        names = ", ".join(self.user_names) or "none"
        raise ConfigError(f"users: there is no user {user!r}; known: {names}")

    def authenticate(self, headers: Mapping[str, str], identity: CertificateIdentity | None = None) -> User:
        """Return the user of a request, identified by its client certificate or else by its token.

        An unknown token is ignored if there are neither `users` nor `rules`. Otherwise it raises a 401 `StatusError`.
        """
        if identity is not None:
            extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={identity.fingerprint}"]}
            return User(identity.name, (*identity.groups, AUTHENTICATED), extra=extra)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _NO_USER
        user = self.user_of(token.strip())
        if user is None and (self.enforced or token.strip() in self._revoked):
            raise unauthorized()
        return user or _NO_USER

    def is_allowed(self, user: User, attempt: Attempt, version: str = "v1") -> bool:
        """Return True if a rule allows it. `version` is the version of the group, which only `rules` name."""
        if user.is_admin or (self.rules is None and self._roles is None):
            return True
        if self._roles is not None:
            return self._roles.allows(Subject(user.name, user.groups), attempt)
        resource = f"{group_version(attempt.group, version)}/{attempt.resource}"
        rules = self.rules or ()
        return any((user.name, v, r) in rules for v in (attempt.verb, "*") for r in (resource, "*"))

    def rules_of(self, user: User, namespace: str) -> list[dict[str, Any]]:
        """Return the rights of a user in a namespace as RBAC rules, in order."""
        if user.is_admin or (self.rules is None and self._roles is None):
            return [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        if self._roles is not None:
            return self._roles.rules(Subject(user.name, user.groups), namespace)
        granted = []
        for verb, name in sorted((verb, resource) for owner, verb, resource in self.rules or () if owner == user.name):
            group, version, _ = parts_of(name)
            resource = name.removeprefix(f"{group_version(group or '', version or '')}/")
            granted.append({"verbs": [verb], "apiGroups": ["*" if group is None else group], "resources": [resource]})
        return granted

    def user_of(self, token: str) -> User | None:
        """Return the user that a token belongs to, or None."""
        if token in self._revoked:
            return None
        if token == self.admin_token:
            return User(ADMIN, (MASTERS, AUTHENTICATED), ADMIN)
        name = (self.users or {}).get(token)
        return self._issued.get(token) if name is None else User(name, (AUTHENTICATED,), name)

    def revoke(self, token: str) -> None:
        """Refuse a token from now on. Raises `ConfigError` if no user has it."""
        if token not in self._revoked and self.user_of(token) is None:
            raise ConfigError("the token cannot be revoked: no user of this server has it")
        self._revoked.add(token)

    def set_token(self, user: str | None, token: str | None) -> str:
        """Replace the tokens of a user. Raises `ConfigError` for an unknown user, or another user's token."""
        old = self.token(user)
        if old is None:
            raise ConfigError("tokens are not checked by this server; pass users= to APIServer")
        token = secrets.token_hex(16) if token is None else token
        holder = self.user_of(token)
        if holder is not None and holder.name != (user or ADMIN):
            raise ConfigError(f"the token belongs to {holder.name!r}; choose another for {user or ADMIN!r}")
        self._revoked.add(old)
        self._revoked.discard(token)
        if user is None:
            self.admin_token = token
        else:
            self.users = {other: name for other, name in (self.users or {}).items() if name != user} | {token: user}
        return token

    def add_token(self, token: str, user: User) -> None:
        """Add a token for a user."""
        self._issued[token] = user

    def authorize(self, user: User, info: RequestInfo) -> None:
        """Raise a 403 `StatusError` unless the rules allow the request."""
        if user.is_admin or (self.rules is None and self._roles is None):
            return
        if not info.plural:
            self._authorize_path(user, info)
            return
        is_named = user.name != ANONYMOUS
        plural = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        attempt = Attempt(info.verb, info.group, plural, info.namespace, info.name)
        if self.is_allowed(user, attempt, info.version) or (is_named and info.resource in _ABOUT_ONESELF):
            return
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        message = f'User "{user.name}" cannot {info.verb} resource "{plural}" in API group "{info.group}" {where}'
        missing = [] if self._roles is None else self._roles.missing(Subject(user.name, user.groups), info.namespace)
        if missing:
            message += f": RBAC: {missing[0] if len(missing) == 1 else '[' + ', '.join(missing) + ']'}"
        raise forbidden(info.group, info.plural, info.name, message)

    def _authorize_path(self, user: User, info: RequestInfo) -> None:
        if _under(info.path, _PUBLIC) or (user.name != ANONYMOUS and _under(info.path, _DISCOVERY)):
            return
        if self._roles is not None and self.is_allowed(user, Attempt(info.verb, path=info.path)):
            return
        raise failure(
            403,
            f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"',
            details={},
            headers={"X-Content-Type-Options": "nosniff"},
        )
