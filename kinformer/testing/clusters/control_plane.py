"""A real etcd and kube-apiserver on loopback, for tests that need more than a test double.

controller-runtime's envtest starts the same pair in the same way (pkg/internal/testing/controlplane). There is no
controller manager, no scheduler and no kubelet. So dependents are not garbage collected, a deleted namespace stays
Terminating, a Deployment creates no Pods, and a Pod stays Pending. The aggregated ClusterRoles `view`, `edit` and
`admin` have no rules, so give users your own Role.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from kinformer._runtime.logs import get_logger
from kinformer.exceptions import ConfigError, KinformerError
from kinformer.testing.clusters.assets import Assets, find_assets
from kinformer.testing.clusters.crd_install import install, is_ok, request_json
from kinformer.testing.clusters.processes import ChildProcess, ProcessError, free_ports
from kinformer.testing.kinds.crd_files import read_crds
from kinformer.testing.logins import Logins, new_private_key, write_secret

if TYPE_CHECKING:
    from kinformer.client.client import Client

__all__ = ["ControlPlane"]

log = get_logger("kinformer.testing.control_plane")

HOST = "127.0.0.1"
START_TIMEOUT = 60.0  # seconds to become ready. It takes 3 on two idle cores, and ten times that on a loaded CI machine
STOP_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL, in which the API server waits for open requests
CRD_TIMEOUT = 30.0  # seconds until a new resource is established and served. Usually well under one
POLL = 0.05  # seconds between two readiness checks
PORT_ATTEMPTS = 3  # another process can take a free port before the server has bound it


class ControlPlane:
    """A real control plane: `async with ControlPlane() as control_plane: ...`.

    Entering finds the binaries, starts them on free ports with fresh certificates and tokens, and returns when the API
    server is ready and the namespace `default` exists (about 3 s). Exiting ends both processes and removes the files.
    If an exception passes through, the files stay and their location is logged. No process is left running, even after
    a cancellation during the start (see `kinformer.testing.clusters.processes`). Entering and exiting may happen in
    different tasks.

    Args:
        assets: The folder with the binaries. By default, `find_assets` searches for them.
        users: Further users, with only the rights that RBAC gives them: names, or a mapping of token to name. The
            default user is in `system:masters` and has all rights.
        api_server_flags: Further flags, as `"--name=value"`. They override default flags with the same name.
        etcd_flags: Further flags for etcd, as for the API server.
        data_dir: A folder for data, certificates and logs. It is kept and can be used again. By default, a temporary
            folder.

    Raises:
        ConfigError: On entering, binaries are missing. The message lists the searched folders.
        ProcessError: On entering, a server did not become ready, or on exit, one had died by itself. The message has
            the end of its log.
    """

    def __init__(
        self,
        assets: str | os.PathLike[str] | None = None,
        *,
        users: Iterable[str] | Mapping[str, str] | None = None,
        api_server_flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        for name, value in (("api_server_flags", api_server_flags), ("etcd_flags", etcd_flags)):
            if isinstance(value, str):
                raise ConfigError(f"{name} expects several strings, not a single one: {value!r}")
        self._asked_assets = assets
        self._logins = Logins(users)
        self._api_server_flags = list(api_server_flags)
        self._etcd_flags = list(etcd_flags)
        self._data_dir = None if data_dir is None else Path(data_dir).expanduser().resolve()
        self._assets: Assets | None = None
        self._folder: Path | None = None
        self._port = 0
        self._etcd_port = 0
        self._etcd: ChildProcess | None = None
        self._api_server: ChildProcess | None = None
        self._stopped_on_purpose: set[ChildProcess] = set()
        self.keep_files = False
        """Set to True to keep the temporary files even after a success."""

    # -- properties -----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`, unchanged by restarts."""
        self._api_server_process()
        return f"https://{HOST}:{self._port}"

    @property
    def folder(self) -> Path:
        """The folder with data, certificates and the two logs."""
        if self._folder is None:
            raise RuntimeError("the control plane has not been started: `async with ControlPlane() as control_plane`")
        return self._folder

    @property
    def ca_file(self) -> Path:
        """The PEM file that verifies the API server."""
        # GenerateSelfSignedCertKey (client-go, util/cert/cert.go) writes the certificate and its CA into one file.
        return self.folder / "certs" / "apiserver.crt"

    @property
    def assets(self) -> Assets:
        """The binaries in use."""
        if self._assets is None:
            raise RuntimeError("the control plane has not been started")
        return self._assets

    def token(self, user: str | None = None) -> str:
        """Return the bearer token of a user, by default one with all rights.

        Raises:
            ConfigError: `users` did not name this user.
        """
        return self._logins.token(user)

    def client(self, user: str | None = None) -> Client:
        """Return a client for a user, by default one with all rights. Enter it like any `Client`."""
        from kinformer.client.client import Client

        return Client.from_url(self.url, token=self.token(user), ssl=self._ssl())

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a kubeconfig and return its path. Only its owner can read it, because it contains a token."""
        target = Path(path)
        self._logins.write_kubeconfig(target, server=self.url, authority=self.ca_file.read_bytes(), user=user)
        return target

    def log_tail(self, lines: int = 30) -> str:
        """Return the last lines of both logs, for a failure report."""
        children = [child for child in (self._etcd, self._api_server) if child]
        return "\n".join(f"{child.log}:\n{child.tail(lines)}" for child in children) or "(nothing was started)"

    # -- entering and leaving -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._folder is not None:
            raise RuntimeError("this control plane has already been started; create a new one")
        self._assets = find_assets(self._asked_assets)
        self._folder = self._data_dir or Path(tempfile.mkdtemp(prefix="kinformer-control-plane-"))
        try:
            self._prepare()
            await self._start_on_free_ports()
        except BaseException as error:
            self._kill()
            if self._data_dir is None and not isinstance(error, Exception):
                shutil.rmtree(self._folder)  # cancelled, so there is no failure to analyse
            else:
                log.warning("the control plane did not start; its files are in %s", self._folder, reason="not_started")
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        dead = [child for child in (self._etcd, self._api_server) if child and self._died(child)]
        try:
            if self._data_dir:  # a graceful end is only worthwhile if the data is kept
                await self.stop_api_server()
                await self.stop_etcd()
        finally:
            self._kill()
        if dead and error is None:
            raise dead[0].failure("exited unexpectedly")
        if error is None and not self._data_dir and not self.keep_files:
            shutil.rmtree(self.folder)
        elif not self._data_dir:
            log.warning("the control plane's files are kept in %s", self._folder, reason="kept")

    def _died(self, child: ChildProcess) -> bool:
        return not child.running and child not in self._stopped_on_purpose

    def _kill(self) -> None:
        """Kill both processes.

        They have ended when this returns. It does not yield to the loop and cannot be cancelled.
        """
        for child in (self._api_server, self._etcd):
            if child:
                child.kill()

    # -- stopping and starting its parts --------------------------------------------------------------------------

    async def stop_api_server(self, kill: bool = False) -> None:
        """Stop the API server, but not etcd, and keep the port. Does nothing if the API server is not running.

        Args:
            kill: True sends SIGKILL, like a crash: connections are cut immediately. False sends SIGTERM, and SIGKILL
                after 10 s. Meanwhile the server closes its watches and finishes other requests.
        """
        await self._stop(self._api_server_process(), kill)

    async def start_api_server(self) -> None:
        """Start the API server again, on the same port and data, and wait until it is ready.

        Raises:
            RuntimeError: It is already running.
            ProcessError: It did not become ready within 60 s. It needs etcd to become ready.
        """
        await self._start_again(self._api_server_process(), self._api_server_is_ready)

    async def stop_etcd(self, kill: bool = False) -> None:
        """Stop etcd, but not the API server. Requests that need etcd then fail.

        Args:
            kill: True sends SIGKILL, like a crash. False sends SIGTERM, and SIGKILL after 10 s.
        """
        await self._stop(self._etcd_process(), kill)

    async def start_etcd(self) -> None:
        """Start etcd again, on the same port and data, and wait until it is ready.

        The API server reconnects by itself within some seconds. Watches resume or end.

        Raises:
            RuntimeError: It is already running.
            ProcessError: It did not become ready within 60 s.
        """
        await self._start_again(self._etcd_process(), self._etcd_is_ready)

    async def ensure_running(self) -> None:
        """Start each part that was stopped or has died, and wait until it is ready.

        Does nothing if both are running.
        """
        if not self._etcd_process().running:
            await self.start_etcd()
        if not self._api_server_process().running:
            await self.start_api_server()

    async def restart(self, downtime: float = 0.0) -> None:
        """Stop the API server, wait `downtime` seconds, and start it again.

        Its watch cache restarts at the current revision, so a watch from an older one gets a 410 (apiserver,
        pkg/storage/cacher/watch_cache.go, getAllEventsSinceLocked).
        """
        await self.stop_api_server()
        await asyncio.sleep(downtime)
        await self.start_api_server()

    # -- control by tests -----------------------------------------------------------------------------------------

    async def compact(self) -> int:
        """Compact etcd's history at the current revision, and return that revision.

        The API server's watch cache keeps some history. So a watch from an older revision gets a 410 immediately only
        with `api_server_flags=["--watch-cache=false"]`, and otherwise after a `restart()`. Snapshots in the watch
        cache may still answer a LIST that continues from an older revision or asks for it exactly. Without a watch
        cache, a watch from the last revision before this one gets a 500 ("PrevKv=nil") instead, because etcd still has
        the change but no longer its previous value.
        """
        self._api_server_process()
        async with aiohttp.ClientSession(f"http://{HOST}:{self._etcd_port}") as session:
            status, body = await request_json(
                session, "POST", "/v3/kv/range", {"key": base64.b64encode(b"\0").decode()}
            )
            if status != 200:
                raise KinformerError(f"etcd does not report its revision: {status} {body}")
            revision = int(body["header"]["revision"])
            request = {"revision": str(revision), "physical": True}
            status, body = await request_json(session, "POST", "/v3/kv/compaction", request)
            # etcd reports an error for a second compaction at the same revision.
            if status != 200 and "has been compacted" not in str(body):
                raise KinformerError(f"etcd does not compact at {revision}: {status} {body}")
        return revision

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Create or replace CustomResourceDefinitions, and wait until all their versions are served.

        Args:
            sources: Files, folders (see `read_crds`) or dicts.

        Raises:
            ConfigError: A source cannot be read or contains no CustomResourceDefinition.
            APIError: The server refuses a definition.
            TimeoutError: A definition is not served within 30 s. The message has its conditions.
        """
        crds = read_crds(*sources)
        async with self.client() as client:
            await install(client, crds, CRD_TIMEOUT)

    # -- implementation -------------------------------------------------------------------------------------------

    def _api_server_process(self) -> ChildProcess:
        if self._api_server is None:
            raise RuntimeError("the control plane has not been started: `async with ControlPlane() as control_plane`")
        return self._api_server

    def _etcd_process(self) -> ChildProcess:
        if self._etcd is None:
            raise RuntimeError("the control plane has not been started: `async with ControlPlane() as control_plane`")
        return self._etcd

    async def _stop(self, child: ChildProcess, kill: bool) -> None:
        self._stopped_on_purpose.add(child)
        if kill:
            child.kill()
        elif not await child.stop(STOP_TIMEOUT):
            log.warning("%s did not end within %g s and was killed", child.name, STOP_TIMEOUT, reason="killed")

    async def _start_again(self, child: ChildProcess, is_ready: Callable[[], Awaitable[bool]]) -> None:
        child.start()
        self._stopped_on_purpose.discard(child)
        try:
            await self._wait_ready(child, is_ready)
        except BaseException:
            self._stopped_on_purpose.add(child)  # reported here, not again on exit
            child.kill()
            raise

    def _prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "certs").mkdir(mode=0o700, exist_ok=True)
        self._logins.write_token_file(self.folder / "tokens.csv")
        if not (self.folder / "service-account.key").exists():
            write_secret(self.folder / "service-account.key", new_private_key())

    async def _start_on_free_ports(self) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._port, self._etcd_port, etcd_peer_port = free_ports(3, HOST)
            try:
                await self._start(etcd_peer_port)
                return
            except ProcessError as error:
                self._kill()
                if attempt == PORT_ATTEMPTS or "address already in use" not in str(error):
                    raise

    async def _start(self, etcd_peer_port: int) -> None:
        etcd_argv = [str(self.assets.etcd), *_merged(self._etcd_defaults(etcd_peer_port), self._etcd_flags)]
        self._etcd = ChildProcess("etcd", etcd_argv, self.folder / "etcd.log")
        argv = [str(self.assets.kube_apiserver), *_merged(self._api_server_defaults(), self._api_server_flags)]
        self._api_server = ChildProcess("kube-apiserver", argv, self.folder / "kube-apiserver.log")
        await self.start_etcd()
        await self.start_api_server()

    def _etcd_defaults(self, peer_port: int) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://{HOST}:{self._etcd_port}",
            f"--advertise-client-urls=http://{HOST}:{self._etcd_port}",
            f"--listen-peer-urls=http://{HOST}:{peer_port}",
            "--unsafe-no-fsync",  # the data survives a kill -9, but not a power cut
            "--log-level=error",
        ]

    def _api_server_defaults(self) -> list[str]:
        key = self.folder / "service-account.key"
        return [
            f"--etcd-servers=http://{HOST}:{self._etcd_port}",
            f"--cert-dir={self.folder / 'certs'}",
            f"--bind-address={HOST}",
            f"--secure-port={self._port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",  # without a controller manager, every Pod would be refused
            f"--service-account-issuer=https://{HOST}:{self._port}/",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--shutdown-watch-termination-grace-period=2s",  # without it, open watches delay a SIGTERM by a minute
            "--endpoint-reconciler-type=none",  # the Service `kubernetes` is not used
        ]

    def _ssl(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {self.token()}"},
            connector=aiohttp.TCPConnector(ssl=self._ssl()),
        )

    async def _wait_ready(self, child: ChildProcess, is_ready: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not await is_ready():
                    if not child.running:
                        raise child.failure("did not start")
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            raise child.failure(f"was not ready within {START_TIMEOUT:g} s") from error

    async def _etcd_is_ready(self) -> bool:
        async with aiohttp.ClientSession(f"http://{HOST}:{self._etcd_port}") as session:
            return await is_ok(session, "/health")

    async def _api_server_is_ready(self) -> bool:
        try:
            session = self._session()
        except (FileNotFoundError, ssl.SSLError):
            return False  # its certificate is not completely written yet
        async with session:
            # A controller inside the API server creates the namespace, and /readyz does not wait for it.
            return await is_ok(session, "/readyz") and await is_ok(session, "/api/v1/namespaces/default")


def _merged(defaults: list[str], extra: list[str]) -> list[str]:
    replaced = {flag.split("=", 1)[0] for flag in extra}
    return [*(flag for flag in defaults if flag.split("=", 1)[0] not in replaced), *extra]
