"""The first steps of `kinformer doctor`: configuration, credentials, server and authentication."""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from kinformer import APIError, Client, ConfigError, ConnectError, UnauthorizedError
from kinformer.cli.doctor.findings import CONFIGURATION, UNAUTHENTICATED, UNREACHED, Report, status_of
from kinformer.cli.output.amounts import seconds
from kinformer.cli.output.errors import one_line
from kinformer.cli.target import Server
from kinformer.client import ConnectionInfo
from kinformer.exceptions import DecodeError

__all__ = ["check_authentication", "check_configuration", "check_server", "open_client"]

_PINGS = 5  # requests whose median is the latency
_SKEW = 5.0  # seconds that two clocks may differ without a warning
_ANONYMOUS = "system:anonymous"


async def check_configuration(report: Report, server: Server) -> ConnectionInfo:
    """Check that the configuration can be read: a kubeconfig, a URL or a service account."""
    try:
        connection = await server.client().connection_info()
    except ConfigError as error:
        hint = "name another file with --kubeconfig or KUBECONFIG, another context with --context, or a --server"
        report.stop("configuration", one_line(error), hint, status=CONFIGURATION)
    facts = {
        "server": connection.server,
        "source": connection.source,
        "namespace": connection.namespace,
        "proxy": connection.proxied,
    }
    by_proxy = ", by a proxy" if connection.proxied else ""
    source = "--server" if connection.source == "url" else connection.source
    report.ok("configuration", f"{source}: {connection.server}{by_proxy}, namespace {connection.namespace}", **facts)
    return connection


async def open_client(report: Report, stack: AsyncExitStack, server: Server, connection: ConnectionInfo) -> Client:
    """Check that the credentials can be obtained: files can be read, a plugin works."""
    began = time.perf_counter()
    try:
        client = await stack.enter_async_context(server.client())
    except ConfigError as error:
        hint = "no request was sent yet: run the plugin by itself, or log in again"
        report.stop("credentials", one_line(error), hint, status=UNAUTHENTICATED)
    took = time.perf_counter() - began
    slow = f", which took {seconds(took)}" if took > 1 else ""
    kind = _credential(connection)
    if kind:
        report.ok("credentials", f"{kind}{slow}", kind=kind, seconds=round(took, 4))
    else:
        report.ok("credentials", "none are configured", kind=None)
    return client


def _credential(connection: ConnectionInfo) -> str:
    """Describe the credentials without their content. Returns "" if there are none."""
    kind = {
        "token": "a token",
        "password": "a user and password",
        "token-file": "a token from a file",
        "exec-plugin": f"the plugin {connection.exec_plugin}",
        "auth-provider": "an auth-provider",
    }.get(connection.credential, "")
    certificate = "a client certificate" if connection.client_certificate else ""
    return " and ".join(filter(None, (kind, certificate)))


async def check_server(report: Report, client: Client, connection: ConnectionInfo, timeout: float) -> None:
    """Check that an API server responds, and measure its latency."""
    began = time.perf_counter()
    try:
        async with client.stream("/version", timeout=timeout) as body:
            first, date = time.perf_counter() - began, body.headers.get("Date", "")
            version = _version(await body.read_all(65536))
    except ConnectError as error:
        report.stop("server", one_line(error), *_remedies(str(error), connection), status=UNREACHED)
    except (DecodeError, APIError) as error:
        if not isinstance(error, APIError) or error.status not in (401, 403):
            message = f"{connection.server} responds, but not like an API server: {one_line(error)}"
            hint = "check the address and its path: a proxy or a login page may respond there"
            report.stop("server", message, hint, status=UNREACHED)
        first, date, version = time.perf_counter() - began, "", ""
    latency = await _latency(client, timeout)
    tls = _tls(connection)
    connected = f"connected in {seconds(max(0.001, first - (latency or 0)))} ({tls})"
    answers = f", answers in {seconds(latency)}" if latency is not None else ""
    message = f"{version or 'its version cannot be read'}; {connected}{answers}"
    facts = {"version": version, "connect_seconds": round(first, 4), "latency_seconds": latency, "tls": tls}
    skew = _skew(date)
    if skew is not None:
        facts["clock_skew_seconds"] = round(skew, 1)
    if connection.server.startswith("https:") and not connection.verified:
        hint = "insecure-skip-tls-verify: anything between here and the server can read the credentials"
        report.warn("server", message, hint, **facts)
    elif skew is not None and abs(skew) > _SKEW:
        message += f"; its clock is {seconds(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this one"
        hint = "synchronize the clocks: tokens, certificates, leases and ages depend on them"
        report.warn("server", message, hint, **facts)
    else:
        report.ok("server", message, **facts)


def _version(data: bytes) -> str:
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("gitVersion"), str):
        raise DecodeError("/version does not contain a Kubernetes version")
    return str(document["gitVersion"])


async def _latency(client: Client, timeout: float) -> float | None:
    """Return the duration of a request on an open connection in seconds, or None if requests fail."""
    times = []
    for _ in range(_PINGS + 1):
        began = time.perf_counter()
        try:
            await client.request("GET", "/version", timeout=timeout, retries=0)
        except APIError:
            pass  # this is a response too
        except (ConnectError, DecodeError):
            return None
        times.append(time.perf_counter() - began)
    return round(statistics.median(times[1:]), 5)  # the first request includes connecting


def _tls(connection: ConnectionInfo) -> str:
    if not connection.server.startswith("https:"):
        return "no TLS"
    if not connection.verified:
        return "TLS, not verified"
    return "TLS, verified by " + (
        "the system's authorities" if connection.system_trust else "the kubeconfig's authority"
    )


def _skew(date: str) -> float | None:
    """Return the seconds by which the server's clock is ahead. The header has whole seconds."""
    try:
        there = parsedate_to_datetime(date)
        apart = (there.replace(tzinfo=there.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except Exception:  # noqa: BLE001 - for a year, a day or a zone out of range it raises four types of errors
        return None
    return 0.0 if -1 <= apart <= 1 else apart


def _remedies(text: str, connection: ConnectionInfo) -> list[str]:
    if "certificate verify failed" in text:
        if connection.system_trust:
            return ["the system's authorities did not sign it: set certificate-authority in the kubeconfig"]
        return ["the kubeconfig is for another cluster, or older than its certificates: get a new one"]
    if "TLS" in text:
        return ["check whether the address should begin with https:// or with http://"]
    if "does not resolve" in text:
        return ["check the host name, and whether it needs a VPN"]
    if "refused" in text:
        return ["nothing listens there: check the port, and that the cluster or `kubectl proxy` is running"]
    if "no response" in text or "timed out" in text:
        return ["a firewall, a VPN or a proxy may block it; --timeout allows more time"]
    return ["check whether `curl` reaches it from here"]


async def check_authentication(report: Report, client: Client, timeout: float) -> str:
    """Check that the server accepts the credentials.

    Returns the user's name, or "" if the server does not report it.
    """
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        response: Any = await client.request("POST", path, body=body, timeout=timeout, retries=0)
    except UnauthorizedError as error:
        hint = "the credentials have expired, or belong to another cluster: log in again, or get a new kubeconfig"
        report.stop("authentication", one_line(error), hint, status=UNAUTHENTICATED)
    except APIError as error:
        if error.status not in (403, 404, 405):
            report.stop("authentication", one_line(error), status=status_of(error))
        message = "accepted; the server does not report the user (SelfSubjectReview exists since 1.28)"
        report.ok("authentication", message)
        return ""
    except (ConnectError, DecodeError) as error:
        report.stop("authentication", one_line(error), status=UNREACHED)
    info = (response.get("status") or {}).get("userInfo") or {}
    user, groups = str(info.get("username", "")), [str(group) for group in info.get("groups") or ()]
    facts = {"user": user, "groups": groups}
    if user == _ANONYMOUS:
        hint = "normal for kubectl proxy and test servers; otherwise pass credentials with --kubeconfig"
        report.warn("authentication", f"{user}: the server accepts requests without credentials", hint, **facts)
    else:
        report.ok("authentication", f"{user}, of {', '.join(groups) or 'no group'}", **facts)
    return user
