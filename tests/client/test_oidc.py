"""The auth-provider `oidc` of kubeconfigs: answers of issuers as they are in use, and refusals that say why."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError
from tests.client.test_client import json_answer, kubeconfig
from tests.support.certificates import server_side
from tests.support.http_server import HttpServer

SECRET = "s3cret-of-the-client"
REFRESH = "the-refresh-token"


def id_token(name: str, *, seconds: float = 3600, **claims: Any) -> str:
    """Return a token whose claims have the characters in which base64url differs from base64."""
    document = {"exp": int(time.time() + seconds), "name": name, "picture": "~~~???>>>", **claims}
    part = base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")
    return f"head.{part}.signature"


class Issuer:
    """An issuer whose token endpoint answers as a test says."""

    def __init__(self, answer: Any = None, *, status: int = 200, takes: str = "head", metadata: Any = None) -> None:
        self.answer = {"id_token": id_token("new")} if answer is None else answer
        self.status = status
        self.takes = takes
        self.metadata = metadata
        self.forms: list[dict[str, str]] = []
        self.url = ""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/.well-known/openid-configuration"):
            if isinstance(self.metadata, web.Response):
                return self.metadata
            return json_answer({"token_endpoint": f"{self.url}/token"} if self.metadata is None else self.metadata)
        form = {name: str(value) for name, value in (await request.post()).items()}
        head = request.headers.get("Authorization", "")
        pair = base64.b64decode(head.removeprefix("Basic ")).decode().partition(":")
        client = (pair[0], pair[2]) if head else (form.get("client_id"), form.get("client_secret", ""))
        self.forms.append(form)
        assert form["grant_type"] == "refresh_token"
        if (self.takes == "head") != bool(head) or client[0] not in ("c%2F1", "c/1"):
            return web.json_response({"error": "invalid_client"}, status=401)
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status, content_type="text/plain")


def config_of(issuer: Issuer, **more: Any) -> dict[str, Any]:
    fields = {
        "client-id": "c/1",
        "client-secret": SECRET,
        "idp-issuer-url": f"{issuer.url}/",
        "id-token": id_token("old", seconds=-1),
        "refresh-token": REFRESH,
        **more,
    }
    return {name: value for name, value in fields.items() if value is not None}


class Server:
    """An API server that remembers the tokens, and an issuer."""

    def __init__(self, folder: Path, issuer: Issuer) -> None:
        self.folder = folder
        self.issuer = issuer
        self.tokens: list[str] = []
        self.refuses = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.refuses:
            self.refuses = False
            return web.json_response({"kind": "Status", "status": "Failure", "code": 401}, status=401)
        return json_answer({"fine": True})

    async def ask(self, times: int = 1, **more: Any) -> None:
        async with HttpServer(self.answer) as server:
            provider = {"auth-provider": {"name": "oidc", "config": config_of(self.issuer, **more)}}
            async with Client.from_kubeconfig(kubeconfig(self.folder, server.url, provider)) as client:
                for _ in range(times):
                    await client.request("GET", "/x")


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[[Issuer], Any]]:
    running: list[HttpServer] = []

    async def start(issuer: Issuer, **options: Any) -> Server:
        server = await HttpServer(issuer, **options).__aenter__()
        running.append(server)
        issuer.url = server.url
        return Server(tmp_path, issuer)

    yield start
    for server in running:
        await server.__aexit__()


async def test_a_token_that_is_good_is_used_and_one_that_has_expired_is_renewed_once(serve: Any) -> None:
    issuer = Issuer()
    server = await serve(issuer)
    await server.ask(**{"id-token": id_token("good")})
    assert issuer.forms == []
    await server.ask(times=5)
    assert len(issuer.forms) == 1
    assert issuer.forms[0]["refresh_token"] == REFRESH
    assert server.tokens[1:] == [f"Bearer {issuer.answer['id_token']}"] * 5


async def test_one_without_an_end_counts_as_expired_as_in_client_go(serve: Any) -> None:
    issuer = Issuer()
    part = base64.urlsafe_b64encode(b"{}").decode()
    await (await serve(issuer)).ask(**{"id-token": f"a.{part}.c"})
    assert len(issuer.forms) == 1


async def test_an_issuer_may_send_a_new_refresh_token_or_keep_the_old_one(serve: Any) -> None:
    issuer = Issuer({"id_token": id_token("short", seconds=5), "refresh_token": "the-next"})
    server = await serve(issuer)
    await server.ask(times=3)
    assert len(issuer.forms) >= 3
    assert [form["refresh_token"] for form in issuer.forms] == [REFRESH, *["the-next"] * (len(issuer.forms) - 1)]
    issuer.answer, issuer.forms = {"id_token": id_token("short", seconds=5)}, []
    await server.ask(times=2)
    assert {form["refresh_token"] for form in issuer.forms} == {REFRESH}


@pytest.mark.parametrize("takes", ["head", "body"])
@pytest.mark.parametrize("secret", [SECRET, None])
async def test_a_client_says_who_it_is_as_the_issuer_takes_it(serve: Any, takes: str, secret: str | None) -> None:
    issuer = Issuer(takes=takes)
    await (await serve(issuer)).ask(**{"client-secret": secret})
    if takes == "body":
        assert issuer.forms[-1]["client_id"] == "c/1"


async def test_a_401_renews_it(serve: Any) -> None:
    issuer = Issuer()
    server = await serve(issuer)
    server.refuses = True
    await server.ask(**{"id-token": id_token("refused")})
    assert len(issuer.forms) == 1
    assert server.tokens[-1] == f"Bearer {issuer.answer['id_token']}"


def token_with(expiry: bytes) -> str:
    """Return an id token whose `exp` is written like this."""
    claims = base64.urlsafe_b64encode(b'{"exp": %s}' % expiry).decode().rstrip("=")
    return f"a.{claims}.c"


async def test_an_end_in_quotes_is_a_number_as_in_go(serve: Any) -> None:
    issuer = Issuer()
    server = await serve(issuer)
    await server.ask(**{"id-token": token_with(b'"32503680000"')})
    assert issuer.forms == []


REFUSALS: dict[str, tuple[Issuer, dict[str, Any], str]] = {
    "no id_token": (
        Issuer({"access_token": "x"}),
        {},
        "the token endpoint sent no id_token; the login may lack the scope",
    ),
    "no text": (Issuer({"id_token": 5}), {}, "the token endpoint sent no id_token"),
    "two lines": (Issuer({"id_token": "a\nb"}), {}, "the token endpoint sent no id_token"),
    "revoked": (
        Issuer({"error": "invalid_grant", "error_description": f"{REFRESH} was revoked"}, status=400),
        {},
        "the token endpoint answered 400: invalid_grant",
    ),
    "an error that quotes": (Issuer({"error": f"no {REFRESH}"}, status=400), {}, "the token endpoint answered 40"),
    "no object": (Issuer(b"[]"), {}, "the issuer answered with something else than a JSON object"),
    "no JSON": (Issuer(b"<html>"), {}, "the issuer answered with something else than a JSON object"),
    "no metadata": (
        Issuer(metadata=web.Response(status=404)),
        {},
        "the issuer answered 404 for its openid-configuration",
    ),
    "no endpoint": (Issuer(metadata={}), {}, "the openid-configuration of the issuer has no token_endpoint"),
    "no client": (Issuer(), {"client-id": None}, "client-id is missing"),
    "no issuer": (Issuer(), {"idp-issuer-url": None}, "idp-issuer-url is missing"),
    "no refresh token": (
        Issuer(),
        {"refresh-token": None},
        "there is no valid id-token, and no refresh-token to get one",
    ),
    "no token of the Web": (Issuer(), {"id-token": f"{SECRET}.b"}, "the id-token is no JSON Web Token"),
    "no time": (
        Issuer(),
        {"id-token": token_with(b"1e400")},
        "the id-token is no JSON Web Token, or its exp is no time",
    ),
    "NaN": (Issuer(), {"id-token": token_with(b"NaN")}, "the id-token is no JSON Web Token"),
    "nested": (Issuer(b"[" * 100_000), {}, "the issuer answered with something else than a JSON object"),
    "no URL": (Issuer(), {"idp-issuer-url": "issuer.example.com"}, "idp-issuer-url is not a URL such as https://"),
    "no endpoint's URL": (
        Issuer(metadata={"token_endpoint": "https://ho%20st"}),
        {},
        "the token_endpoint of the issuer is not a URL such as https://",
    ),
    "no base64": (
        Issuer(),
        {"idp-certificate-authority-data": "!"},
        "idp-certificate-authority-data cannot be read: it is not base64",
    ),
    "no one there": (Issuer(), {"idp-issuer-url": "http://127.0.0.1:1"}, "the issuer cannot be asked: Connect"),
    "no authority": (
        Issuer(),
        {"idp-certificate-authority": "/nowhere/ca.crt"},
        "idp-certificate-authority cannot be read: No such file",
    ),
    "no PEM": (Issuer(), {"idp-certificate-authority-data": "!!!"}, "idp-certificate-authority-data cannot be read"),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_a_refusal_names_provider_field_and_reason_and_no_secret(serve: Any, what: str) -> None:
    issuer, fields, message = REFUSALS[what]
    server = await serve(issuer)
    with pytest.raises(ConfigError) as caught:
        await server.ask(**fields)
    assert f"users[u].user.auth-provider: no credential: oidc: {message}" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in (SECRET, REFRESH))


async def test_the_certificate_of_an_issuer_is_verified_also_without_an_authority(
    serve: Any, certificates: Path
) -> None:
    issuer = Issuer()
    server = await serve(issuer, ssl_context=server_side(certificates))
    with pytest.raises(ConfigError, match=r"oidc: the issuer cannot be asked: .*CERTIFICATE_VERIFY_FAILED"):
        await server.ask()
    assert issuer.forms == []
    authority = (certificates / "local.crt").read_bytes()
    await server.ask(**{"idp-certificate-authority-data": base64.b64encode(authority).decode()})
    await server.ask(**{"idp-certificate-authority": str(certificates / "local.crt")})
    assert len(issuer.forms) == 2
