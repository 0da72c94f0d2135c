"""Connections from URLs, kubeconfigs, pods and proxies.

Internals: the loaders themselves, since they take an environment and files of a test's, and ask no server.
"""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from kinformer import Client
from kinformer.client import ConnectionInfo
from kinformer.connection.addresses import environment_proxy
from kinformer.connection.config import from_url, load_in_cluster
from kinformer.connection.kubeconfig import load_default, load_kubeconfig
from kinformer.exceptions import ConfigError
from tests.support.log_records import Said, message_of, said

SECRET = "hush-hush"


def document(**changes: Any) -> dict[str, Any]:
    """A kubeconfig that works, with parts replaced."""
    return {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
    } | changes


def write(file: Path, content: dict[str, Any] | str) -> Path:
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def cluster(**fields: Any) -> dict[str, Any]:
    return {"clusters": [{"name": "k", "cluster": {"server": "https://k:6443"} | fields}]}


def user(**fields: Any) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": fields}]}


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


class TestKubeconfig:
    async def test_the_current_context_says_where_and_as_whom(self, tmp_path: Path) -> None:
        found = load_kubeconfig(write(tmp_path / "config", document()), environ={})
        assert found.server == "https://k:6443"
        assert await found.credential.authorization() == f"Bearer {SECRET}"
        assert found.tls.verify
        assert found.namespace == "default"
        assert found.proxy is None
        assert SECRET not in repr(found)

    def test_another_context_can_be_named(self, tmp_path: Path) -> None:
        contexts = [
            {"name": "dev", "context": {"cluster": "k"}},
            {"name": "prod", "context": {"cluster": "p", "namespace": "shop"}},
        ]
        clusters = [
            {"name": "k", "cluster": {"server": "https://k"}},
            {
                "name": "p",
                "cluster": {
                    "server": "https://p",
                    "insecure-skip-tls-verify": True,
                    "tls-server-name": "inside",
                    "proxy-url": "http://proxy:3128",
                },
            },
        ]
        file = write(tmp_path / "config", document(contexts=contexts, clusters=clusters))
        found = load_kubeconfig(file, context="prod", environ={})
        assert (found.server, found.namespace, found.proxy) == ("https://p", "shop", "http://proxy:3128")
        assert (found.tls.verify, found.tls.server_name) == (False, "inside")

    def test_paths_are_relative_to_the_file_that_names_them(self, tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_text("pem")
        (tmp_path / "a").mkdir()
        file = write(tmp_path / "a" / "config", document(**cluster(**{"certificate-authority": "../ca.crt"})))
        ca = load_kubeconfig(file, environ={}).tls.ca
        assert ca is not None
        assert ca.read() == b"pem"

    def test_inline_data_wins_over_a_file(self, tmp_path: Path) -> None:
        fields = {"certificate-authority": "missing", "certificate-authority-data": base64.b64encode(b"x").decode()}
        ca = load_kubeconfig(write(tmp_path / "config", document(**cluster(**fields))), environ={}).tls.ca
        assert ca is not None
        assert ca.read() == b"x"
        assert "x'" not in repr(ca)

    async def test_of_several_files_the_first_to_name_a_thing_wins(self, tmp_path: Path) -> None:
        first = write(tmp_path / "1", document(**cluster(server="https://first"), users=[]))
        second = write(tmp_path / "2", document(**{"current-context": "no"}, **cluster(server="https://second")))
        environ = {"KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "missing"), "", str(second)])}
        found = load_kubeconfig(None, environ=environ)
        assert found.server == "https://first"
        assert await found.credential.authorization() == f"Bearer {SECRET}"  # the user is in the second alone

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"current-context": ""}, "current-context: is missing"),
            ({"current-context": "x"}, "current-context: 'x' is not in contexts; known: dev"),
            ({"contexts": []}, "current-context: 'dev' is not in contexts; contexts is empty"),
            ({"contexts": "dev"}, "contexts: must be a list, is a string"),
            ({"contexts": [{"context": {}}]}, "contexts[0].name: is missing"),
            ({"contexts": [{"name": "dev", "context": {}}]}, "contexts[dev].context.cluster: is missing"),
            (
                {"contexts": [{"name": "dev", "context": {"cluster": "x"}}]},
                "contexts[dev].context.cluster: 'x' is not in clusters; known: k",
            ),
            (
                {"contexts": [{"name": "dev", "context": {"cluster": "k", "user": "x"}}]},
                "contexts[dev].context.user: 'x' is not in users; known: u",
            ),
            ({"clusters": [{"name": "k", "cluster": {}}]}, "clusters[k].cluster.server: is missing"),
            (cluster(server="k:6443/path"), "clusters[k].cluster.server: must be a URL"),
            (cluster(server=f"{SECRET}-0123456789ABCDEF"), "clusters[k].cluster.server: must be a URL"),
            (cluster(server=f"https://u:{SECRET}@k"), "clusters[k].cluster.server: the URL has a user or password"),
            (
                cluster(**{"insecure-skip-tls-verify": "yes"}),
                "clusters[k].cluster.insecure-skip-tls-verify: must be true or false, is a string",
            ),
            (
                cluster(**{"certificate-authority-data": "%%%"}),
                "clusters[k].cluster.certificate-authority-data: is not base64",
            ),
            (cluster(**{"certificate-authority": "nope.crt"}), "clusters[k].cluster.certificate-authority: "),
            (
                cluster(**{"proxy-url": f"socks5://u:{SECRET}@p"}),
                "clusters[k].cluster.proxy-url: SOCKS proxies are not supported",
            ),
            (user(token=7), "users[u].user.token: must be a string, is int"),
            (user(token=[SECRET]), "users[u].user.token: must be a string, is a list"),
            (user(**{"client-key-data": f"{SECRET}!"}), "users[u].user.client-key-data: is not base64"),
            (user(**{"as-groups": ["g"]}), "users[u].user.as: is missing"),
            (user(exec={"command": "x"}), "users[u].user.exec.apiVersion: is missing"),
            (user(exec={"apiVersion": "v1"}), "users[u].user.exec.command: is missing"),
            (user(exec=EXEC | {"interactiveMode": "Maybe"}), "users[u].user.exec.interactiveMode: invalid 'Maybe'"),
            (user(exec=EXEC | {"env": [{"value": SECRET}]}), "users[u].user.exec.env[0].name: is missing"),
            (user(exec=EXEC | {"args": [1]}), "users[u].user.exec.args: must be a list of strings"),
            (
                user(**{"auth-provider": {"name": "azure"}}),
                "users[u].user.auth-provider.name: 'azure' is not supported",
            ),
        ],
    )
    def test_what_is_wrong_is_named_by_file_and_field_without_secrets(
        self, tmp_path: Path, changes: dict[str, Any], problem: str
    ) -> None:
        file = write(tmp_path / "config", document(**changes))
        with pytest.raises(ConfigError) as caught:
            load_kubeconfig(file, environ={})
        assert str(caught.value).startswith(f"{file}: {problem}")
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize(
        ("fields", "server"),
        [
            ({"server": "127.0.0.1:8001"}, "http://127.0.0.1:8001"),
            ({"server": "localhost:8001/"}, "http://localhost:8001"),
            ({"server": " k.example "}, "http://k.example"),
            ({"server": "[::1]:6443", "insecure-skip-tls-verify": True}, "https://[::1]:6443"),
            ({"server": "k:6443", "certificate-authority-data": base64.b64encode(b"x").decode()}, "https://k:6443"),
            ({"server": "HTTPS://k:6443"}, "https://k:6443"),
        ],
    )
    def test_a_server_without_a_scheme_is_reached_as_kubectl_reaches_it(
        self, tmp_path: Path, fields: dict[str, Any], server: str
    ) -> None:
        file = write(tmp_path / "config", document(**cluster(**fields)))
        assert load_kubeconfig(file, environ={}).server == server

    def test_a_client_certificate_makes_it_https(self, tmp_path: Path) -> None:
        certificate = {"client-certificate-data": base64.b64encode(b"x").decode()}
        changes = {**document(**cluster(server="k:6443")), **user(**certificate)}
        assert load_kubeconfig(write(tmp_path / "config", changes), environ={}).server == "https://k:6443"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (f"users: [\ntoken: {SECRET}\n  bad: : :", "line 3, column 6: not YAML"),
            (f"current-context: *{SECRET}", "line 1, column 18: not YAML: ComposerError"),
            ("- a list", "the document: must be a mapping, is a list"),
            ("", "current-context: is missing"),
            ("\x00", "not YAML"),
        ],
    )
    def test_a_file_that_is_no_kubeconfig_is_named_with_the_place_but_not_quoted(
        self, tmp_path: Path, text: str, problem: str
    ) -> None:
        file = write(tmp_path / "config", text)
        with pytest.raises(ConfigError) as caught:
            load_kubeconfig(file, environ={})
        assert str(file) in str(caught.value)
        assert problem in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=f"{tmp_path}/nope: No such file"):
            load_kubeconfig(tmp_path / "nope")
        with pytest.raises(ConfigError, match=f"KUBECONFIG: {tmp_path}/nope, {tmp_path}/no: no such file"):
            load_kubeconfig(None, environ={"KUBECONFIG": f"{tmp_path}/nope{os.pathsep}{tmp_path}/no"})

    def test_a_context_asked_for_that_is_not_there_is_named_with_those_that_are(self, tmp_path: Path) -> None:
        file = write(tmp_path / "config", document())
        with pytest.raises(ConfigError, match=f"{file}: context: 'prod' is not in contexts; known: dev"):
            load_kubeconfig(file, context="prod")

    async def test_errors_come_on_entering_and_not_before(self, tmp_path: Path) -> None:
        client = Client.from_kubeconfig(tmp_path / "nope", context="x")
        assert repr(client) == "<Client not entered>"
        with pytest.raises(ConfigError, match="nope"):
            await client.__aenter__()

    @pytest.mark.parametrize("missing", ["id-token", "provider"])
    async def test_an_oidc_provider_that_cannot_be_used_is_named_without_its_secrets(
        self, tmp_path: Path, missing: str
    ) -> None:
        config = {"client-id": "c", "client-secret": SECRET, "idp-issuer-url": "http://127.0.0.1:1"}
        if missing == "provider":
            config |= {"refresh-token": SECRET, "id-token": f"a.{SECRET}.c"}
        provider = {"auth-provider": {"name": "oidc", "config": config}}
        file = write(tmp_path / "config", document(**user(**provider)))
        with pytest.raises(ConfigError, match=r"users\[u\].user.auth-provider: no credential: ") as caught:
            async with Client.from_kubeconfig(file):
                pytest.fail("entered")
        assert SECRET not in str(caught.value)

    async def test_an_oidc_token_that_is_still_good_is_used(self, tmp_path: Path) -> None:
        claims = base64.urlsafe_b64encode(b'{"exp": 32503680000}').decode().rstrip("=")
        provider = {"auth-provider": {"name": "oidc", "config": {"id-token": f"a.{claims}.c"}}}
        found = load_kubeconfig(write(tmp_path / "config", document(**user(**provider))), environ={})
        assert await found.credential.authorization() == f"Bearer a.{claims}.c"


ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class TestInCluster:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for name, text in (("token", "t1\n"), ("ca.crt", "pem"), ("namespace", "shop\n")):
            (tmp_path / name).write_text(text)
        return tmp_path

    async def test_a_pod_knows_its_server_its_token_and_its_namespace(self, root: Path) -> None:
        found = load_in_cluster(ENVIRON, root)
        assert (found.server, found.namespace) == ("https://10.96.0.1:443", "shop")
        assert await found.credential.authorization() == "Bearer t1"
        assert found.tls.ca is not None
        assert found.tls.ca.read() == b"pem"

    async def test_after_a_401_the_token_is_read_again(self, root: Path) -> None:
        credential = load_in_cluster(ENVIRON, root).credential
        await credential.authorization()
        (root / "token").write_text("t2")
        assert await credential.authorization() == "Bearer t1"
        await credential.renew()
        assert await credential.authorization() == "Bearer t2"

    async def test_a_token_that_vanishes_leaves_the_last_in_use_with_a_warning(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        credential = load_in_cluster(ENVIRON, root).credential
        await credential.authorization()
        (root / "token").write_text("")
        await credential.renew()
        assert await credential.authorization() == "Bearer t1"
        assert said(caplog, "token_unreadable") == [Said("WARNING", "kinformer.credentials")]
        assert f"{root}/token is empty" in message_of(caplog, "token_unreadable")

    def test_an_ipv6_address_is_bracketed(self, root: Path) -> None:
        found = load_in_cluster(ENVIRON | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, root)
        assert found.server == "https://[fd00::1]:443"

    @pytest.mark.parametrize("name", list(ENVIRON))
    def test_outside_of_a_pod_the_missing_variable_is_named(self, root: Path, name: str) -> None:
        with pytest.raises(ConfigError, match=f"{name} is not set"):
            load_in_cluster({key: value for key, value in ENVIRON.items() if key != name}, root)

    def test_a_pod_without_a_service_account_is_told_the_file(self, root: Path) -> None:
        (root / "token").unlink()
        with pytest.raises(ConfigError, match=f"{root}/token does not exist"):
            load_in_cluster(ENVIRON, root)


class TestDefault:
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

    def test_kubeconfig_goes_before_the_file_at_home(self, tmp_path: Path) -> None:
        (tmp_path / ".kube").mkdir()
        write(tmp_path / ".kube" / "config", document(**cluster(server="https://home")))
        other = write(tmp_path / "other", document(**cluster(server="https://other")))
        assert load_default({"KUBECONFIG": str(other)}).server == "https://other"
        assert load_default({}).server == "https://home"

    def test_a_kubeconfig_that_is_not_there_is_an_error_even_with_a_file_at_home(self, tmp_path: Path) -> None:
        (tmp_path / ".kube").mkdir()
        write(tmp_path / ".kube" / "config", document())
        with pytest.raises(ConfigError, match=r"KUBECONFIG: .*nope: no such file"):
            load_default({"KUBECONFIG": str(tmp_path / "nope")})

    def test_with_neither_file_nor_pod_both_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=f"{tmp_path}/.kube/config does not exist, and KUBERNETES_SERVICE_HOST"):
            load_default({})

    async def test_the_plain_constructor_says_so_on_entering(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(ConfigError, match="KUBECONFIG is not set"):
            async with Client():
                pytest.fail("entered")
        with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
            async with Client.in_cluster():
                pytest.fail("entered")


class TestUrl:
    @pytest.mark.parametrize(
        ("url", "server"),
        [("http://127.0.0.1:8001/", "http://127.0.0.1:8001"), ("https://host/k8s/c-1/", "https://host/k8s/c-1")],
    )
    def test_a_path_is_kept_and_a_last_slash_dropped(self, url: str, server: str) -> None:
        assert from_url(url).server == server

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "host",
            "host:1",
            "ftp://host",
            "http://",
            "http://host:99999",
            "http://[::1",
            "http://h/?a=b",
            "http://h#x",
        ],
    )
    def test_what_cannot_be_a_servers_url_is_refused_at_once(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"^url: "):
            Client.from_url(url)


class TestProxy:
    @pytest.mark.parametrize(
        ("url", "environ", "proxy"),
        [
            ("https://k:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
            ("https://k:6443", {"https_proxy": "p:1"}, "http://p:1"),
            ("https://k:6443", {"HTTP_PROXY": "http://p:1"}, None),
            ("http://k", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
            ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, None),
            ("https://127.0.0.9", {"HTTPS_PROXY": "http://p:1"}, None),
            ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ],
    )
    def test_it_is_that_of_the_scheme_but_never_for_loopback(
        self, url: str, environ: dict[str, str], proxy: str | None
    ) -> None:
        assert environment_proxy(url, environ) == proxy

    @pytest.mark.parametrize(
        ("host", "no_proxy", "exempt"),
        [
            ("10.96.0.1", "10.0.0.0/8", True),
            ("10.96.0.1", "192.168.0.0/16, 10.96.0.1", True),
            ("11.0.0.1", "10.0.0.0/8", False),
            ("[fd00::1]", "fd00::/8", True),
            ("[fd00::1]", "fd00::1", True),
            ("api.internal", "internal", True),
            ("api.internal", ".internal", True),
            ("API.internal", "*.Internal", True),
            ("internal", ".internal", False),
            ("xinternal", "internal", False),
            ("api.internal", "api.internal:6443", True),
            ("api.internal", "api.internal:443", False),
            ("api.internal", "*", True),
            ("api.internal", "", False),
            ("api.internal", ",nonsense/x,", False),
        ],
    )
    def test_no_proxy_knows_hosts_domains_ranges_and_ports(self, host: str, no_proxy: str, exempt: bool) -> None:
        found = environment_proxy(f"https://{host}:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy})
        assert (found is None) is exempt

    def test_what_is_no_http_proxy_is_refused_by_the_variables_name(self) -> None:
        with pytest.raises(ConfigError, match=r"^HTTPS_PROXY: SOCKS proxies are not supported") as caught:
            environment_proxy("https://k", {"HTTPS_PROXY": f"socks5://u:{SECRET}@p"})
        assert SECRET not in str(caught.value)


PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


class TestConnectionInfo:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"token": SECRET}, {"credential": "token"}),
            ({"username": "a", "password": SECRET}, {"credential": "password"}),
            ({"tokenFile": "/no/such/file"}, {"credential": "token-file"}),
            ({"exec": EXEC | {"interactiveMode": "Never"}}, {"credential": "exec-plugin", "exec_plugin": "x"}),
            ({"client-certificate-data": PEM, "client-key-data": PEM}, {"client_certificate": True}),
            ({}, {}),
        ],
    )
    async def test_it_names_the_kind_of_credential_and_reads_none(
        self, tmp_path: Path, fields: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        path = write(tmp_path / "config", document(**user(**fields)))
        info = await Client.from_kubeconfig(path).connection_info()
        assert info == ConnectionInfo(server="https://k:6443", source=f"{path}, context 'dev'", **expected)
        assert SECRET not in repr(info)

    async def test_it_tells_of_proxies_and_trust(self, tmp_path: Path) -> None:
        fields = {"proxy-url": f"http://eve:{SECRET}@proxy:3128", "insecure-skip-tls-verify": True}
        info = await Client.from_kubeconfig(write(tmp_path / "a", document(**cluster(**fields)))).connection_info()
        assert (info.proxied, info.verified, info.system_trust) == (True, False, True)
        assert SECRET not in repr(info)
        own = document(**cluster(**{"certificate-authority-data": PEM}))
        info = await Client.from_kubeconfig(write(tmp_path / "b", own)).connection_info()
        assert (info.proxied, info.verified, info.system_trust) == (False, True, False)

    async def test_it_is_the_same_before_and_after_entering(self) -> None:
        client = Client.from_url("http://127.0.0.1:1", token=SECRET)
        before = await client.connection_info()
        async with client:
            assert await client.connection_info() == before
        assert (before.server, before.source, before.credential) == ("http://127.0.0.1:1", "url", "token")

    async def test_a_configuration_that_cannot_be_read_is_a_config_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            await Client.from_kubeconfig(tmp_path / "nowhere").connection_info()

    def test_the_contexts_of_a_kubeconfig_are_in_its_order(self, tmp_path: Path) -> None:
        names = [{"name": name, "context": {"cluster": "k"}} for name in ("prod", "dev", "prod")]
        path = write(tmp_path / "config", document(contexts=names))
        assert Client.contexts(path) == ["prod", "dev"]
        with pytest.raises(ConfigError, match="nowhere"):
            Client.contexts(tmp_path / "nowhere")


class TestMapping:
    async def test_a_mapping_is_read_as_a_file_with_its_content_is(self, tmp_path: Path) -> None:
        content = document(
            contexts=[
                {"name": "dev", "context": {"cluster": "k", "user": "u"}},
                {"name": "prod", "context": {"cluster": "k", "user": "u", "namespace": "shop"}},
            ]
        )
        file = write(tmp_path / "config", content)
        for context in (None, "prod"):
            by_file = await Client.from_kubeconfig(file, context=context).connection_info()
            by_mapping = await Client.from_kubeconfig(MappingProxyType(content), context=context).connection_info()
            assert by_mapping.source == f"kubeconfig mapping, context {context or 'dev'!r}"
            assert replace(by_mapping, source="") == replace(by_file, source="")
        assert Client.contexts(content) == Client.contexts(file) == ["dev", "prod"]

    async def test_it_is_copied_when_it_is_given(self) -> None:
        content = document()
        client = Client.from_kubeconfig(content)
        content["clusters"][0]["cluster"]["server"] = "https://other:6443"
        content["clusters"].clear()
        assert (await client.connection_info()).server == "https://k:6443"

    def test_mappings_and_tuples_of_other_types_are_taken(self) -> None:
        content = document(contexts=({"name": "dev", "context": MappingProxyType({"cluster": "k", "user": "u"})},))
        assert Client.contexts(MappingProxyType(content)) == ["dev"]

    async def test_relative_paths_are_those_of_the_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "token").write_text("from-file")
        found = load_kubeconfig(document(**user(tokenFile="token")))
        assert await found.credential.authorization() == "Bearer from-file"

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            ({}, "kubeconfig mapping: current-context: is missing"),
            (document(clusters=[]), r"kubeconfig mapping: contexts\[dev\].context.cluster: 'k' is not in clusters"),
            (document(**cluster(server=7)), r"kubeconfig mapping: clusters\[k\].cluster.server: must be a string"),
            (document(users="u"), "kubeconfig mapping: users: must be a list, is a string"),
        ],
    )
    async def test_what_is_wrong_in_it_is_named_by_its_field(self, content: dict[str, Any], complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint):
            await Client.from_kubeconfig(content).connection_info()

    def test_what_is_neither_a_path_nor_a_mapping_is_refused_at_once(self) -> None:
        with pytest.raises(ConfigError, match=r"content of a kubeconfig; .*yaml\.safe_load"):
            Client.from_kubeconfig(yaml.safe_dump(document()))
        for wrong, kind in ((b"x", "bytes"), ([], "list"), (7, "int")):
            path: Any = wrong
            with pytest.raises(ConfigError, match=f"must be a path or a mapping, got {kind}"):
                Client.from_kubeconfig(path)

    def test_a_mapping_that_contains_itself_is_refused(self) -> None:
        content = document()
        content["users"].append(content)
        with pytest.raises(ConfigError, match="contains itself"):
            Client.from_kubeconfig(content)

    async def test_no_secret_of_it_is_in_a_repr_or_an_error(self) -> None:
        client = Client.from_kubeconfig(document(clusters=[]))
        with pytest.raises(ConfigError) as raised:
            await client.connection_info()
        assert SECRET not in repr(client) + str(raised.value)
