"""The embedded API server: real HTTP on loopback, one state, and failures on request."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.apiserver.accept import is_pretty
from kinformer.apiserver.options import query_of
from kinformer.apiserver.reads import check_timeout
from kinformer.apiserver.status import StatusError, failure, internal
from kinformer.listening.aiohttp_server import HTTPListener, server_options
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.testing.api.bootstrap import FAIRNESS, make_bootstrap_objects
from kinformer.testing.api.rbac import RoleBasedAccess
from kinformer.testing.api.request import read_request
from kinformer.testing.faults import STREAM_ONLY, FaultHandle, Faults
from kinformer.testing.features import Features
from kinformer.testing.http.auth import AccessControl, User, check_host
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.http.certificates import Authority, identity_of
from kinformer.testing.http.documents import DocumentEndpoints
from kinformer.testing.http.endpoints import ResourceEndpoints
from kinformer.testing.http.metrics import RequestMetrics
from kinformer.testing.http.request_log import LoggedRequest, RequestLog
from kinformer.testing.http.struck_response import ConnectionCut, NoResponse, StruckResponse
from kinformer.testing.state import State

if TYPE_CHECKING:
    from kinformer.client.client import Client

__all__ = ["APIServer"]

_LONG_RUNNING = ("attach", "exec", "proxy", "log", "portforward")
logger = get_logger("kinformer.testing.server")

GRACE = 1.0  # seconds that a graceful stop waits for requests
# Idle connections stay open, so that a client's pool never races with a server closing them, above all in virtual
# time.
_KEEPALIVE = 3600.0  # seconds
# Nearly all descriptors of such a process may be connections: a watch has one of its own, and may read as slowly as it
# likes. A body that no handler reads, of up to 3 MiB, is counted like the next head.
_MOST = 100_000
_SHARE = 0.95
_AT_ONCE = 100  # a step of the event loop for each connection costs a third more
_HEAD_BYTES = 4 * 1024 * 1024
_NOT_KNOWN = User("", ())  # before authentication
Object = dict[str, Any]


class APIServer(State):
    """A stateful Kubernetes API server in this process.

    ::

        async with APIServer() as server:
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
            async with server.client() as client: ...

    Args:
        host: The address to listen on.
        port: The port, or 0 for a free one. It stays the same across restarts.
        allowed_hosts: The host names that requests may name, besides `host`, IP addresses and `localhost`. Others get
            a 421. None: any name.
        users: A mapping of bearer token to user name, or only names, which get generated tokens. None: tokens are not
            checked.
        rules: Allowed (user, verb, resource) triples. `"*"` is any verb or resource. None: everything is allowed.
        rbac: True allows what the Roles, ClusterRoles and bindings in the server allow, instead of `rules`. A change of
            them counts from the next request on. Users may always read discovery and ask for their own rights.
        tls: True serves `https` with a certificate from the server's own authority. kubectl and client-go send tokens
            only over `https`. Client certificates from that authority are accepted (`client_certificate`): the common
            name is the user, the organizations are the groups, and a member of `system:masters` has all rights. Needs
            the package `cryptography`, from the extra `testing`.
        bootstrap: True creates, on entering, the objects that a real server creates when it starts: the Service
            `kubernetes` with its endpoints, ClusterRoles, PriorityClasses, FlowSchemas, APIServices and so on.
            Programs such as kube-controller-manager need them. It is off by default, because 170 extra objects
            disturb tests that count their own.
        clock: A clock whose `wall` gives the timestamps in metadata. Timers run on the event loop's time.
        features: Differences from a v1.36 with default settings. See `Features`.

    The server belongs to the event loop in which it was entered. Exiting ends open watches and closes all
    connections.

    Attributes:
        faults: The faults that strike its requests.
        requests: The newest 20,000 requests, as a list. `requests.dropped` counts older ones.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Iterable[str] | None = None,
        users: Iterable[str] | Mapping[str, str] | None = None,
        rules: Iterable[tuple[str, str, Any]] | None = None,
        rbac: bool = False,
        tls: bool = False,
        bootstrap: bool = False,
        clock: Clock | None = None,
        features: Features | None = None,
    ) -> None:
        super().__init__(clock or SYSTEM, features)
        self._host = host
        self._port = port
        self._hosts = None if allowed_hosts is None else AllowedHosts(allowed_hosts, own=host)
        self.faults = Faults()
        self.requests = RequestLog()
        roles = RoleBasedAccess(self._ledger) if rbac else None
        self._access = AccessControl(users, rules, roles=roles, named=tls)
        self._tls = tls
        self._to_bootstrap = bootstrap
        self._authority: Authority | None = None
        self._resources = ResourceEndpoints(
            self._writer, self._deleter, self._access, self.faults, self._rewind_for, self._features
        )
        self._metrics = RequestMetrics()
        self._documents = DocumentEndpoints(self._registry, lambda: f"{self._host}:{self._port}", self._metrics_text)
        self._gate = asyncio.Event()  # cleared while the server is paused
        self._gate.set()
        self._listener: HTTPListener | None = None
        self._handling: set[asyncio.Task[Any]] = set()
        self._fairness = {kind: str(uuid.uuid4()) for kind in FAIRNESS}
        self._fairness_headers = {FAIRNESS[kind]: uid for kind, uid in self._fairness.items()}

    # -- running --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._tls and self._authority is None:
            self._authority = Authority(self._host)
        try:
            await self._listen()
        except BaseException:
            self._close_authority()
            raise
        if self._to_bootstrap:
            self._to_bootstrap = False
            make_bootstrap_objects(self._writer, self._host, self._port, self._fairness)
        return self

    @shielded_from_scopes
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._stop()
        finally:
            self._close_authority()

    def _close_authority(self) -> None:
        if self._authority is not None:
            self._authority.close()
            self._authority = None

    async def _listen(self) -> None:
        http = web.Server(self._handle, handler_cancellation=True, **server_options(keepalive=_KEEPALIVE))
        connections = Connections(most=_MOST, share=_SHARE, spare=0, head_bytes=_HEAD_BYTES, unread=None)
        context = None if self._authority is None else self._authority.server_context()
        self._listener = HTTPListener(http, connections, tls=context, at_once=_AT_ONCE)
        await self._listener.listen(self._host, self._port)
        self._port = self._listener.port or 0

    async def _stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            await listener.stop()
        finally:
            # Parts that end without waiting are ended even if this is cancelled.
            for task in list(self._handling):
                task.cancel()
            listener.connections.abort()
        await listener.close(0.1)
        if self._handling:
            await asyncio.wait(set(self._handling))

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`, or `https://...` with `tls`."""
        if not self._port:
            raise RuntimeError("the server has not been started: `async with APIServer() as server`")
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port}"

    @property
    def ca_file(self) -> Path | None:
        """The PEM file that verifies the server, or None if the URL is plain `http`. It is removed on exit."""
        return None if self._authority is None else self._authority.file

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Sign a certificate for a user in these groups, and return it with its key, both in PEM.

        Raises:
            RuntimeError: The server has no TLS, or has not been started.
        """
        if self._authority is None:
            raise RuntimeError("client certificates need `async with APIServer(tls=True) as server`")
        return self._authority.issue_client(user, groups)

    def token(self, user: str | None = None) -> str | None:
        """Return the bearer token of a user, by default one with all rights, or None if tokens are not checked.

        Raises:
            ConfigError: `users` does not have this user.
        """
        return self._access.token(user)

    def revoke(self, token: str) -> None:
        """Answer requests with a token with a 401 from now on, such as one of `token(user)` or of a TokenRequest.

        A TokenReview denies it too. Open watches go on, as on a real server, which authenticates a request when it
        begins. `set_token` ends it.

        Raises:
            ConfigError: No user has this token.
        """
        self._access.revoke(token)

    def set_token(self, user: str | None = None, token: str | None = None) -> str:
        """Give a user another token, and return it. Requests with earlier ones get a 401, as after `revoke`.

        Args:
            user: One of `users`. None: the one with all rights.
            token: The token. None: a generated one.

        Raises:
            ConfigError: `users` does not have this user, the token is another user's, or tokens are not checked.
        """
        return self._access.set_token(user, token)

    def client(self, user: str | None = None) -> Client:
        """Return a client for a user, by default one with all rights. Enter it like any `Client`.

        Raises:
            ConfigError: `users` does not have this user.
        """
        from kinformer.client.client import Client

        return Client.from_url(self.url, token=self.token(user), ssl=self._client_context())

    def _client_context(self) -> ssl.SSLContext | None:
        return None if self._authority is None else self._authority.client_context()

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a kubeconfig that only its owner can read, and return its path.

        Its current context is for a user, by default one with all rights, whose file has a context for each of `users`
        too, under the user's name.
        """
        current = user or "kubernetes-admin"
        others = [] if user is not None else self._access.user_names
        names = {"kinformer": current, **{name: name for name in others}}
        cluster = {"server": self.url}
        if self._authority is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self._authority.certificate).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kinformer", "cluster": cluster}],
            "users": [
                {"name": name, "user": {"token": token} if (token := self.token(owner)) else {}}
                for name, owner in [(current, user), *((name, name) for name in others)]
            ],
            "contexts": [
                {"name": context, "context": {"cluster": "kinformer", "user": name, "namespace": "default"}}
                for context, name in names.items()
            ],
            "current-context": "kinformer",
        }
        target = Path(path)
        target.touch(mode=0o600)
        target.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")  # JSON is YAML
        return target

    # -- control by tests -----------------------------------------------------------------------------------------

    async def compact(self) -> int:
        """Discard all history, in the watch cache and below, and return the current revision.

        A list or watch that starts or continues from an older version gets a 410. The server does so by itself too, as
        etcd does: every five minutes, up to the revision of five minutes before, and earlier to keep less than 32 MB.
        """
        self._storage.raise_floors()
        self._storage.compact(self._storage.revision)
        return self._storage.revision

    def pause(self) -> None:
        """Make all connections half-open: they stay open and new ones are accepted, but nothing more is sent."""
        self._gate.clear()

    def resume(self) -> None:
        """End a pause, and send the data that was held back."""
        self._gate.set()

    async def restart(self, downtime: float = 0.0, *, graceful: bool = False) -> None:
        """Close all connections, stay down for `downtime` seconds, and return on the same port with the same data.

        A watch that resumes from an older version gets a 410. One from the newest version continues. Informers come
        back after their backoff, as after an outage: 0.8 to 1.6 s, then twice as long for each further restart within
        two minutes, up to 6 s. `SharedInformerFactory(client, backoff=Backoff(initial=0.1, maximum=0.5))` shortens it.

        Args:
            downtime: Seconds during which connections are refused.
            graceful: True ends open watches cleanly and answers other requests first, as after SIGTERM with
                `--shutdown-watch-termination-grace-period`. Requests that take more than a second are cut. False cuts
                all connections immediately, as SIGKILL does.
        """
        if graceful:
            await self._drain()
        await self._stop()
        self._storage.raise_floors()
        if downtime > 0:
            await asyncio.sleep(downtime)
        await self._listen()

    async def _drain(self) -> None:
        """Accept no new connections, end the watches, and let other requests finish."""
        if self._listener is not None:
            await self._listener.stop()
        self._storage.end_watches()
        others = self._handling - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=GRACE)

    def _rewind_for(self, revisions: int, request: web.BaseRequest) -> None:
        """Go back in time, and cut all connections except the requesting one."""
        self._storage.rewind(revisions)
        self._storage.raise_floors()
        self._lifecycle.refresh()
        for listener in self._ledger.on_rewind:
            listener()
        if self._listener is not None:
            self._listener.connections.abort(besides=request.transport)

    # -- requests -------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            with Connections.request():
                return await self._answer(request)
        except (ConnectionCut, ConnectionError):
            return NoResponse()
        finally:
            self._handling.discard(task)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        params = dict(query_of(request.rel_url.raw_query_string))
        info = read_request(request.method, request.path, params)
        user = _NOT_KNOWN
        logged = False

        def log(status: int) -> None:
            nonlocal logged
            if not logged:
                logged = True
                self.requests.append(LoggedRequest(request.method, request.path, params, user.name, status))
                self._metrics.count(info, params, request.content_type, status)

        response = StruckResponse(request, self._gate, pretty=is_pretty(request.headers, params), on_head=log)
        try:
            try:
                if self._hosts is not None:
                    check_host(request, self._hosts)
                if info.verb not in ("watch", "proxy") and info.subresource not in _LONG_RUNNING:
                    check_timeout(params)
                user = self._access.authenticate(request.headers, identity_of(request.transport))
                response.more_headers = self._fairness_headers
                call = HTTPCall(request, params, info, response, user)
                await self._strike_before_response(call)
                self._access.authorize(user, info)
                with self._metrics.in_progress(info):
                    await self._serve(call)
            except StatusError as error:
                await response.send_error(error)
            except (ConnectionCut, ConnectionError):
                raise
            except Exception:
                logger.exception(
                    "the test server failed at %s %s", request.method, request.path, reason="server_failed"
                )
                if response.stream is not None:
                    await response.close()
                await response.send_error(
                    internal("This request caused the server to panic. Look in the logs for details.")
                )
        finally:
            log(0)
        assert response.stream is not None, "every request is answered"
        return response.stream

    async def _serve(self, call: HTTPCall) -> None:
        await (self._resources if call.info.plural else self._documents).handle(call)

    def _metrics_text(self) -> str:
        listed = [kind for kind in self._registry if kind.is_storage and "list" in kind.verbs]
        return self._metrics.text(
            (kind.group, kind.plural, len(self._ledger.collection(kind).objects)) for kind in listed
        )

    async def _strike_before_response(self, call: HTTPCall) -> None:
        """Apply the faults that strike before the response begins or replace it entirely."""
        info, response = call.info, call.response
        for handle in self.faults.for_request(info):
            if info.verb == "watch" and not self._strikes_before_response(handle):
                continue
            fault = handle.fault
            if fault.kind in STREAM_ONLY or not handle.strike():
                continue
            if fault.kind in ("status", "expired"):
                assert fault.error is not None
                raise fault.error
            if fault.kind == "delay":
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "garble":
                response.garble = True
            elif fault.kind == "stale":
                call.behind = fault.revisions
            elif fault.kind == "close_mid_line":
                response.cut_body = True
            elif fault.kind == "rewind":
                try:
                    self._rewind_for(fault.revisions, call.request)
                except ValueError as error:
                    raise failure(500, f"the fault cannot be applied: {error}") from error
            else:
                await response.cut_or_stall(fault)

    @staticmethod
    def _strikes_before_response(handle: FaultHandle) -> bool:
        return handle.fault.kind in ("status", "delay", "rewind", "stale") and handle.after_events is None
