"""The `auth-provider` `oidc` of kubeconfigs (client-go, plugin/pkg/client/auth/oidc/oidc.go).

kubernetes_asyncio has it too, but it verifies no certificate unless the kubeconfig has an authority, and needs a client
secret and a new refresh token, which providers may leave out (RFC 6749, 2.1 and 6).
"""

from __future__ import annotations

import base64
import re
import ssl
import time
from collections.abc import Mapping
from urllib.parse import quote_plus

import aiohttp

from kinformer.connection.addresses import split_url
from kinformer.connection.credentials.credential import AuthProvider, json_of, reason_of
from kinformer.exceptions import CredentialError

__all__ = ["OIDC_FIELDS", "OIDCProvider"]

OIDC_FIELDS = (
    "client-id",
    "client-secret",
    "idp-issuer-url",
    "idp-certificate-authority",
    "idp-certificate-authority-data",
    "id-token",
    "refresh-token",
)

_EARLY = 10.0  # seconds before its end at which a token is renewed, as in client-go
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_CODE = re.compile(r"[a-z_]{1,40}")  # of an OAuth 2 error (RFC 6749, 5.2)

_RETRIED = ("", "invalid_client", "invalid_request")  # with the client's identity in the body


class _RefusedError(Exception):
    """Why there is no token. The message has no secret."""


class OIDCProvider(AuthProvider):
    """An id token, which is renewed with a refresh token. Renewed tokens stay in memory: the kubeconfig is not written.

    Args:
        config: The fields of `OIDC_FIELDS` that are there.
        where: The file and field, for messages.
    """

    def __init__(self, config: Mapping[str, str], *, where: str) -> None:
        self._config = config
        super().__init__(self._renewed, where)
        self._token = config.get("id-token", "")
        self._refresh_token = config.get("refresh-token", "")

    async def authorization(self) -> str | None:
        try:
            is_due = not self._token or time.time() + _EARLY >= _expiry(self._token)
        except _RefusedError as error:
            raise CredentialError(self._failed(str(error))) from None
        if is_due:
            await self._flight.get()
        return f"Bearer {self._token}"

    def _failed(self, reason: str) -> str:
        self.failure = f"{self._where}: no credential: oidc: {reason}"
        return self.failure

    async def _renewed(self) -> None:
        try:
            if not self._refresh_token:
                raise _RefusedError("there is no valid id-token, and no refresh-token to get one")
            for field in ("client-id", "idp-issuer-url"):
                if not self._config.get(field):
                    raise _RefusedError(f"{field} is missing")
            connector = aiohttp.TCPConnector(ssl=self._trust())
            async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, trust_env=True) as session:
                answer = await self._asked(session, await self._token_endpoint(session))
            token, newer = answer.get("id_token"), answer.get("refresh_token")
            if not isinstance(token, str) or not token or not token.isprintable():
                raise _RefusedError("the token endpoint sent no id_token; the login may lack the scope openid")
        except _RefusedError as error:
            raise CredentialError(self._failed(str(error))) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # their messages may quote a secret
            raise CredentialError(self._failed(f"the issuer cannot be asked: {reason_of(error)}")) from None
        self._token, self.failure = token, ""
        self._refresh_token = newer if isinstance(newer, str) and newer else self._refresh_token

    def _trust(self) -> ssl.SSLContext | bool:
        """Return the authorities of the issuer: its own, or those of the system."""
        data, file = self._config.get("idp-certificate-authority-data"), self._config.get("idp-certificate-authority")
        try:
            if data:
                pem = base64.b64decode("".join(data.split()), validate=True).decode()
                return ssl.create_default_context(cadata=pem or "nothing")
            return ssl.create_default_context(cafile=file) if file else True
        except (OSError, ValueError) as error:
            field = "idp-certificate-authority-data" if data else "idp-certificate-authority"
            raise _RefusedError(f"{field} cannot be read: {reason_of(error)}") from None

    async def _token_endpoint(self, session: aiohttp.ClientSession) -> str:
        issuer = _web_url(self._config["idp-issuer-url"], "idp-issuer-url").removesuffix("/")
        async with session.get(f"{issuer}/.well-known/openid-configuration") as response:
            if response.status != 200:
                raise _RefusedError(f"the issuer answered {response.status} for its openid-configuration")
            endpoint = _document(await response.read()).get("token_endpoint")
        if not isinstance(endpoint, str) or not endpoint:
            raise _RefusedError("the openid-configuration of the issuer has no token_endpoint")
        return _web_url(endpoint, "the token_endpoint of the issuer")

    async def _asked(self, session: aiohttp.ClientSession, endpoint: str) -> Mapping[str, object]:
        """Ask for tokens, with the client's identity in the head or, if that is refused, in the body.

        Both are in use (RFC 6749, 2.3.1), and golang.org/x/oauth2 tries them in this order.
        """
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        client, secret = self._config["client-id"], self._config.get("client-secret", "")
        in_body = {**form, "client_id": client, **({"client_secret": secret} if secret else {})}
        basic = base64.b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
        for data, head in ((form, {"Authorization": f"Basic {basic}"}), (in_body, {})):
            async with session.post(endpoint, data=data, headers={"Accept": "application/json", **head}) as response:
                raw, status = await response.read(), response.status
            if status == 200:
                return _document(raw)
            if (code := _code_in(raw)) not in _RETRIED:
                break
        raise _RefusedError(f"the token endpoint answered {status}{code and ': '}{code}")


def _web_url(url: str, what: str) -> str:
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https"):
        raise _RefusedError(f"{what} is not a URL such as https://issuer.example.com")
    return url


def _code_in(raw: bytes) -> str:
    """Return the code of an OAuth 2 error, such as `"invalid_grant"`, or ""."""
    try:
        code = _document(raw).get("error")
    except _RefusedError:
        return ""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _document(raw: bytes) -> Mapping[str, object]:
    document = json_of(raw)
    if not isinstance(document, dict):
        raise _RefusedError("the issuer answered with something else than a JSON object")
    return document


def _expiry(token: str) -> int:
    """Return the time of `exp` in an id token, or 0 if it has none."""
    parts = token.split(".")
    try:
        claims = json_of(base64.urlsafe_b64decode(parts[1] + "==")) if len(parts) == 3 else None
        if not isinstance(claims, dict):
            raise _RefusedError("the id-token is no JSON Web Token")
        expiry = claims.get("exp", 0)
        return int(float(expiry)) if isinstance(expiry, int | float | str) else 0  # Go takes a number in quotes too
    except (ValueError, OverflowError):  # no base64, no number, or an infinite one
        raise _RefusedError("the id-token is no JSON Web Token, or its exp is no time") from None
