"""A real etcd and kube-apiserver on loopback, for tests that a double cannot answer.

The same pair, started the same way, as controller-runtime's envtest (pkg/internal/testing/controlplane). There is no
controller manager, no scheduler and no kubelet: owner references are not collected, a deleted namespace stays
Terminating, a Deployment makes no Pods, a Pod stays Pending, and the aggregated ClusterRoles `view`, `edit` and `admin`
have no rules (give users a Role of your own).
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
START_TIMEOUT = 60.0  # seconds to become ready; 3 on two idle cores, and a loaded CI machine may take ten times that
STOP_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL; the API server waits for open requests in between
CRD_TIMEOUT = 30.0  # seconds until a new resource is established and served; usually well under one
POLL = 0.05  # seconds between two questions whether something is ready
PORT_ATTEMPTS = 3  # another process can take a free port before the server has bound it


class ControlPlane:
    """A real control plane: `async with ControlPlane() as control_plane: ...`.

    Entering finds the binaries, starts them on free ports with fresh certificates and tokens, and returns when the
    API server is ready and the namespace `default` exists (about 3 s). Leaving ends both processes and removes the
    files; if an exception passes through, the files stay and their place is logged. No process is left running,
    even after a cancellation in the middle of starting (see `kinformer.testing.processes`). Entering and
    leaving may happen in different tasks.

    Args:
        assets: The folder of the binaries; see `find_assets` for the places looked at without it.
        users: Further users, with only the rights that RBAC gives them: names, or a mapping of token to name. The
            default user is in `system:masters` and may do everything.
        api_server_flags: Further flags, as `"--name=value"`; one of a name that is set anyway replaces it.
        etcd_flags: The same for etcd.
        data_dir: A folder for data, certificates and logs that is kept and can be started from again. By default a
            temporary one.

    Raises:
        ConfigError: (on entering) binaries are missing; the text lists the folders that were searched.
        ProcessError: (on entering) a server did not become ready; the text has the end of its log. (On leaving) one
            had died by itself.
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
                raise ConfigError(f"{name} takes several strings, not one: {value!r}")
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
        """Set it to keep the temporary files also after a success."""

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`, the same until it is left, restarts included."""
        self._api_server_process()
        return f"https://{HOST}:{self._port}"

    @property
    def folder(self) -> Path:
        """Where data, certificates and the two logs are."""
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
        """The bearer token of a user, by default one with all rights.

        Raises:
            ConfigError: `users` did not name this user.
        """
        return self._logins.token(user)

    def client(self, user: str | None = None) -> Client:
        """A client for a user, by default one with all rights. To be entered, like every `Client`."""
        from kinformer.client.client import Client

        return Client.from_url(self.url, token=self.token(user), ssl=self._ssl())

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a kubeconfig (readable by its owner alone: it holds a token) and return its path."""
        target = Path(path)
        self._logins.write_kubeconfig(target, server=self.url, authority=self.ca_file.read_bytes(), user=user)
        return target

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of both logs, for a failure report."""
        children = [child for child in (self._etcd, self._api_server) if child]
        return "\n".join(f"{child.log}:\n{child.tail(lines)}" for child in children) or "(nothing was started)"

    # -- entering and leaving -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._folder is not None:
            raise RuntimeError("this control plane has been started before; make another one")
        self._assets = find_assets(self._asked_assets)
        self._folder = self._data_dir or Path(tempfile.mkdtemp(prefix="kinformer-control-plane-"))
        try:
            self._prepare()
            await self._start_on_free_ports()
        except BaseException as error:
            self._kill()
            if self._data_dir is None and not isinstance(error, Exception):
                shutil.rmtree(self._folder)  # cancelled: there is nothing to find out
            else:
                log.warning("the control plane did not start; its files are in %s", self._folder, reason="not_started")
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        dead = [child for child in (self._etcd, self._api_server) if child and self._died(child)]
        try:
            if self._data_dir:  # only data that is wanted later is worth an orderly end
                await self.stop_api_server()
                await self.stop_etcd()
        finally:
            self._kill()
        if dead and error is None:
            raise dead[0].failure("died by itself")
        if error is None and not self._data_dir and not self.keep_files:
            shutil.rmtree(self.folder)
        elif not self._data_dir:
            log.warning("the control plane's files are kept in %s", self._folder, reason="kept")

    def _died(self, child: ChildProcess) -> bool:
        return not child.running and child not in self._stopped_on_purpose

    def _kill(self) -> None:
        """Both processes have ended when this returns; it neither waits on the loop nor can be cancelled."""
        for child in (self._api_server, self._etcd):
            if child:
                child.kill()

    # -- stopping and starting its parts --------------------------------------------------------------------------

    async def stop_api_server(self, kill: bool = False) -> None:
        """End the API server, and leave etcd and the port as they are; nothing to do if it does not run.

        Args:
            kill: SIGKILL, as a crash would be: connections are cut in the middle. Otherwise SIGTERM, and SIGKILL
                after 10 s, during which the server closes its watches and lets other requests finish.
        """
        await self._stop(self._api_server_process(), kill)

    async def start_api_server(self) -> None:
        """Start the API server again, on the same port and data, and wait until it is ready.

        Raises:
            RuntimeError: it runs.
            ProcessError: it did not become ready within 60 s; it needs etcd for that.
        """
        await self._start_again(self._api_server_process(), self._api_server_is_ready)

    async def stop_etcd(self, kill: bool = False) -> None:
        """End etcd under the API server, which stays and answers what it has to ask etcd for with errors.

        Args:
            kill: SIGKILL, as a crash would be. Otherwise SIGTERM, and SIGKILL after 10 s.
        """
        await self._stop(self._etcd_process(), kill)

    async def start_etcd(self) -> None:
        """Start etcd again, on the same port and data, and wait until it is ready.

        The API server finds it by itself, some seconds later at the latest; watches resume or end.

        Raises:
            RuntimeError: it runs.
            ProcessError: it did not become ready within 60 s.
        """
        await self._start_again(self._etcd_process(), self._etcd_is_ready)

    async def ensure_running(self) -> None:
        """Start whichever part was stopped or has died, and wait until it is ready; nothing to do if both run."""
        if not self._etcd_process().running:
            await self.start_etcd()
        if not self._api_server_process().running:
            await self.start_api_server()

    async def restart(self, downtime: float = 0.0) -> None:
        """Stop the API server, wait `downtime` seconds, start it.

        Its watch cache begins anew at the present revision: a watch from an older one is answered with 410
        (apiserver, pkg/storage/cacher/watch_cache.go, getAllEventsSinceLocked).
        """
        await self.stop_api_server()
        await asyncio.sleep(downtime)
        await self.start_api_server()

    # -- what tests do to it --------------------------------------------------------------------------------------

    async def compact(self) -> int:
        """Make etcd forget all history before the present revision, and return that revision.

        The API server's watch cache still remembers some: a watch from an older revision gets its 410 at once with
        `api_server_flags=["--watch-cache=false"]`, else after a `restart()`. A LIST that continues from an older
        revision, or asks for it exactly, may be answered by the watch cache's snapshots too. Without a watch cache, a
        watch from the very last revision before this one is answered with a 500 ("PrevKv=nil") instead: etcd still has
        the change, but no longer what was before it.
        """
        self._api_server_process()
        async with aiohttp.ClientSession(f"http://{HOST}:{self._etcd_port}") as session:
            status, answer = await request_json(
                session, "POST", "/v3/kv/range", {"key": base64.b64encode(b"\0").decode()}
            )
            if status != 200:
                raise KinformerError(f"etcd does not tell its revision: {status} {answer}")
            revision = int(answer["header"]["revision"])
            request = {"revision": str(revision), "physical": True}
            status, answer = await request_json(session, "POST", "/v3/kv/compaction", request)
            # A second compaction at the same revision has nothing to do, and etcd calls that an error.
            if status != 200 and "has been compacted" not in str(answer):
                raise KinformerError(f"etcd does not compact at {revision}: {status} {answer}")
        return revision

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Create, or replace, CustomResourceDefinitions, and wait until all their versions are served.

        Args:
            sources: Files, folders (see `read_crds`) or dicts.

        Raises:
            ConfigError: a source cannot be read or holds no CustomResourceDefinition.
            APIError: the server refuses one.
            TimeoutError: one is not served within 30 s; the text has its conditions.
        """
        crds = read_crds(*sources)
        async with self.client() as client:
            await install(client, crds, CRD_TIMEOUT)

    # -- how it is done -------------------------------------------------------------------------------------------

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
            self._stopped_on_purpose.add(child)  # reported here, not once more on leaving
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
            "--unsafe-no-fsync",  # the data survives a kill -9, not a power cut
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
            "--disable-admission-plugins=ServiceAccount",  # without a controller manager no Pod would get in
            f"--service-account-issuer=https://{HOST}:{self._port}/",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--shutdown-watch-termination-grace-period=2s",  # with none, open watches hold up a SIGTERM for a minute
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
            return False  # it has not written its certificate, or only half of it
        async with session:
            # The namespace is made by a controller inside the API server, which /readyz does not wait for.
            return await is_ok(session, "/readyz") and await is_ok(session, "/api/v1/namespaces/default")


def _merged(defaults: list[str], extra: list[str]) -> list[str]:
    replaced = {flag.split("=", 1)[0] for flag in extra}
    return [*(flag for flag in defaults if flag.split("=", 1)[0] not in replaced), *extra]
