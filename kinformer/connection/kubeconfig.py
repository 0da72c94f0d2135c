"""Reads kubeconfig files as kubectl does (client-go, tools/clientcmd).

kinformer does not use kubernetes_asyncio for this. Importing any part of that package loads 858 modules of models
(measured: 0.6-1.2 s, 38 MB). Its messages name neither the file nor the field. If there are several files, the last
one takes precedence, instead of the first one as in kubectl.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from kinformer._runtime.yaml_reader import MANY_VALUES, read_yaml
from kinformer.connection.addresses import check_proxy, environment_proxy
from kinformer.connection.config import TLS, ConnectionSettings, Pem, check_server, check_server_name, load_in_cluster
from kinformer.connection.credentials.credential import Credential, StaticCredential, TokenFile, header_text
from kinformer.connection.credentials.exec_plugin import ExecPlugin
from kinformer.connection.credentials.library_provider import LibraryProvider
from kinformer.connection.credentials.oidc import OIDC_FIELDS, OIDCProvider
from kinformer.connection.showable import showable_file
from kinformer.exceptions import ConfigError

__all__ = [
    "Kubeconfig",
    "as_source",
    "context_digests",
    "context_names",
    "kubeconfig_files",
    "load_default",
    "load_kubeconfig",
    "parse_kubeconfig",
]

T = TypeVar("T")

Kubeconfig: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""A kubeconfig: the path of a file, or its content as a mapping."""

_MAPPING = Path("kubeconfig mapping")  # stands for the name of the file in errors
_VALUES_OF_ONE = 20_000  # the most values of a kubeconfig that is not in a file. Copying them takes 3 ms


def as_source(kubeconfig: object) -> Kubeconfig | None:
    """Return a kubeconfig for loading later: a path, or a copy of a mapping.

    Raises:
        ConfigError: It is neither, but for example the content of a kubeconfig.
    """
    if isinstance(kubeconfig, Mapping):
        try:
            return {str(key): _plain(value) for key, value in kubeconfig.items()}
        except RecursionError:
            raise ConfigError(f"{_MAPPING}: is nested too deeply, or contains itself") from None
    if isinstance(kubeconfig, str) and "\n" in kubeconfig:
        raise ConfigError(
            "kubeconfig: expected a path, got the content of a kubeconfig; parse it first: "
            "Client.from_kubeconfig(yaml.safe_load(text))"
        )
    if kubeconfig is None or isinstance(kubeconfig, str | os.PathLike):
        return kubeconfig
    raise ConfigError(f"kubeconfig: must be a path or a mapping, got {type(kubeconfig).__name__}")


def _plain(value: object) -> object:
    """Copy mappings to dicts and sequences to lists, as a YAML parser returns them."""
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def load_default(environ: Mapping[str, str] | None = None) -> ConnectionSettings:
    """Load KUBECONFIG, or else `~/.kube/config`, or else the pod's service account.

    Raises:
        ConfigError: As for `load_kubeconfig` and `load_in_cluster`. If neither exists, the message names both.
    """
    environ = os.environ if environ is None else environ
    if environ.get("KUBECONFIG"):
        return load_kubeconfig(None, environ=environ)
    home = Path("~/.kube/config").expanduser()
    if home.is_file():
        return load_kubeconfig(home, environ=environ)
    try:
        return load_in_cluster(environ)
    except ConfigError as error:
        raise ConfigError(f"KUBECONFIG is not set, {home} does not exist, and {error}") from None


def load_kubeconfig(
    path: Kubeconfig | None, *, context: str | None = None, environ: Mapping[str, str] | None = None
) -> ConnectionSettings:
    """Load one context of a kubeconfig.

    Args:
        path: The file, or its content as a mapping, in which paths are relative to the working directory. None uses
            the files of KUBECONFIG (several are merged, the first definition of a name takes precedence, and missing
            files are skipped), or else `~/.kube/config`.
        context: The name of the context, or None for `current-context`.
        environ: The environment instead of `os.environ`.

    Raises:
        ConfigError: Something is missing, malformed or unknown. The message names file and field.
    """
    environ = os.environ if environ is None else environ
    files = _read_files(path, environ)
    name, where = context, "context"
    if name is None:
        name, where = _current_context(files)
    chosen = _named(files, "contexts", name, where).mapping("context")
    cluster = _named(files, "clusters", chosen.text("cluster", required=True), chosen.at("cluster")).mapping("cluster")
    user_name = chosen.text("user")
    user = _named(files, "users", user_name, chosen.at("user")).mapping("user") if user_name else None
    tls = TLS(
        verify=not cluster.flag("insecure-skip-tls-verify"),
        server_name=check_server_name(cluster.text("tls-server-name"), where=cluster.at("tls-server-name")),
        ca=cluster.pem("certificate-authority"),
        cert=user.pem("client-certificate") if user else None,
        key=user.pem("client-key") if user else None,
    )
    scheme = "https" if tls.ca or tls.cert or not tls.verify else "http"
    server = check_server(cluster.text("server", required=True), where=cluster.at("server"), scheme=scheme)
    proxy = cluster.text("proxy-url")
    return ConnectionSettings(
        server=server,
        source=f"{chosen.file}, context {name!r}",
        credential=_credential(user, cluster) if user else StaticCredential(),
        tls=tls,
        proxy=check_proxy(proxy, where=cluster.at("proxy-url")) if proxy else environment_proxy(server, environ),
        headers=tuple(_impersonation(user)) if user else (),
        namespace=chosen.text("namespace") or "default",
        compresses=not cluster.flag("disable-compression"),
    )


def context_names(path: Kubeconfig | None = None) -> list[str]:
    """Return the contexts of a kubeconfig, in order. `path` and ConfigError are as for `load_kubeconfig`."""
    entries = _entries(_read_files(path, os.environ), "contexts")
    return list(dict.fromkeys(entry.text("name") for entry in entries))


def context_digests(path: Kubeconfig | None = None) -> dict[str, str]:
    """Return the contexts of a kubeconfig, in order, each with a digest of its context, cluster and user.

    Raises:
        ConfigError: The file does not exist, or is not a valid kubeconfig.
    """
    files = _read_files(path, os.environ)
    digests: dict[str, str] = {}
    for entry in _entries(files, "contexts"):
        chosen = entry.mapping("context")
        parts: list[object] = [str(chosen.file), chosen.value]
        for section, part in (("clusters", "cluster"), ("users", "user")):
            named = (other for other in _entries(files, section) if other.text("name") == chosen.value.get(part))
            field = next(named, None)
            parts += [None, None] if field is None else [str(field.file), field.value]
        digest = hashlib.sha256(repr(parts).encode(errors="backslashreplace")).hexdigest()
        digests.setdefault(entry.text("name"), digest)
    return digests


def kubeconfig_files(path: str | os.PathLike[str] | None, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the files of a kubeconfig, existing or not."""
    environ = os.environ if environ is None else environ
    if path is not None:
        return [_home(Path(path), "kubeconfig")]
    listed = [_home(Path(part), "KUBECONFIG") for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [Path("~/.kube/config").expanduser()]


def parse_kubeconfig(text: bytes, where: str) -> dict[str, Any]:
    """Parse a kubeconfig that is not in a file. `where` names it in errors, which never quote its content.

    Raises:
        ConfigError: It is not a valid kubeconfig.
    """
    return dict(_parse(text, where, _VALUES_OF_ONE))


class _Field:
    """A mapping in a kubeconfig, with its file and path for error messages."""

    def __init__(self, file: Path, path: str, value: object) -> None:
        self.file = file
        self.path = path
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {path or 'the document'}: must be a mapping, is {_kind(value)}")
        self.value: dict[object, object] = value

    def at(self, name: object) -> str:
        return f"{self.file}: {self.path}.{name}" if self.path else f"{self.file}: {name}"

    def get(self, name: object, kind: type[T], *, required: bool = False) -> T:
        value = self.value.get(name)
        if value is None or value == "":
            if required:
                raise ConfigError(f"{self.at(name)}: is missing")
            return kind()
        if not isinstance(value, kind):
            # The message does not quote the value, which may be a token in the wrong place.
            raise ConfigError(f"{self.at(name)}: must be {_KINDS[kind]}, is {_kind(value)}")
        return value

    def text(self, name: str, *, required: bool = False) -> str:
        return self.get(name, str, required=required)

    def flag(self, name: str) -> bool:
        return self.get(name, bool)

    def mapping(self, name: str) -> _Field:
        path = f"{self.path}.{name}" if self.path else name
        return _Field(self.file, path, self.value.get(name) or {})

    def strings(self, name: object) -> list[str]:
        values = self.items(name)
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) != len(values):
            raise ConfigError(f"{self.at(name)}: must be a list of strings")
        return texts

    def items(self, name: object) -> list[object]:
        return self.get(name, list)

    def resolve(self, name: str) -> str:
        """Resolve a path relative to its file (client-go, tools/clientcmd/loader.go)."""
        value = self.text(name)
        return str(self.file.parent / _home(Path(value), self.at(name))) if value else ""

    def pem(self, name: str) -> Pem | None:
        """Return the inline data if present, or else the file."""
        data = self.text(f"{name}-data")
        if data:
            where = self.at(f"{name}-data")
            try:
                return Pem(where, data=base64.b64decode("".join(data.split()), validate=True))
            except (binascii.Error, ValueError):
                raise ConfigError(f"{where}: is not base64") from None
        path = self.resolve(name)
        if not path:
            return None
        if not _is_file(path):
            raise ConfigError(f"{self.at(name)}: the file {showable_file(self.text(name))} does not exist")
        return Pem(self.at(name), path=path)


_HEADER_KEY = "!#$&'*+-.^_`|~"  # allowed in header names besides letters and digits (RFC 9110, 5.6.2)
_KINDS: dict[type, str] = {str: "a string", bool: "true or false", list: "a list", dict: "a mapping"}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _home(path: Path, where: str) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # for example "~unknown-user"
        raise ConfigError(f"{where}: {path}: {error}") from None


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long or contains NUL
        return False


def _read_files(path: Kubeconfig | None, environ: Mapping[str, str]) -> list[_Field]:
    if isinstance(path, Mapping):
        return [_Field(_MAPPING, "", dict(path))]
    if path is not None:
        return [_read_file(_home(Path(path), "kubeconfig"))]
    listed = kubeconfig_files(None, environ)
    if not environ.get("KUBECONFIG"):
        return [_read_file(listed[0])]
    present = [file for file in listed if file.exists()]
    if not present:
        raise ConfigError(f"KUBECONFIG: {', '.join(map(str, listed))}: no such file")
    return [_read_file(file) for file in present]


def _read_file(file: Path) -> _Field:
    try:
        document = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:  # a path that contains NUL
        raise ConfigError(f"{file}: not a kubeconfig: {type(error).__name__}") from None
    return _Field(file, "", _parse(document, file))


def _parse(text: bytes, where: object, most_values: int = MANY_VALUES) -> dict[Any, Any]:
    document = read_yaml(text, str(where), what="a kubeconfig", most_values=most_values)
    if document is not None and not isinstance(document, dict):
        raise ConfigError(f"{where}: the document: must be a mapping, is {_kind(document)}")
    return document or {}


def _current_context(files: list[_Field]) -> tuple[str, str]:
    for file in files:
        name = file.text("current-context")
        if name:
            return name, file.at("current-context")
    raise ConfigError(f"{files[0].at('current-context')}: is missing; set it, or name a context")


def _entries(files: list[_Field], section: str) -> Iterator[_Field]:
    for file in files:
        for number, entry in enumerate(file.items(section)):
            field = _Field(file.file, f"{section}[{number}]", entry)
            field.path = f"{section}[{field.text('name', required=True)}]"
            yield field


def _named(files: list[_Field], section: str, name: str, where: str) -> _Field:
    """Return the first entry with this name, as kubectl does."""
    names = []
    for entry in _entries(files, section):
        if entry.text("name") == name:
            return entry
        names.append(entry.text("name"))
    place = where if ": " in where else f"{', '.join(str(file.file) for file in files)}: {where}"
    choices = f"known: {', '.join(sorted(set(names)))}" if names else f"{section} is empty"
    raise ConfigError(f"{place}: {name!r} is not in {section}; {choices}")


def _credential(user: _Field, cluster: _Field) -> Credential:
    """Create the credential of a user, in client-go's order: plugin, provider, token file, token, password."""
    if user.value.get("exec"):
        return _exec_plugin(user.mapping("exec"), cluster)
    if user.value.get("auth-provider"):
        provider = user.mapping("auth-provider")
        name = provider.text("name", required=True)
        if name not in ("oidc", "gcp"):
            raise ConfigError(f"{provider.at('name')}: {name!r} is not supported, only oidc and gcp; use exec")
        where = f"{provider.file}: {provider.path}"
        if name == "oidc":
            config = provider.mapping("config")
            return OIDCProvider({field: config.text(field) for field in OIDC_FIELDS}, where=where)
        alone: dict[str, object] = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": "http://unused"}}],
            "users": [{"name": "it", "user": {"auth-provider": provider.value}}],
        }
        return LibraryProvider(alone, where=where)
    token = user.text("token")
    if user.text("tokenFile"):
        shown = showable_file(user.text("tokenFile"))
        return TokenFile(user.resolve("tokenFile"), where=user.at("tokenFile"), token=token or None, shown=shown)
    if token:
        return StaticCredential(f"Bearer {header_text(token, where=user.at('token'))}")
    if user.text("username"):
        pair = f"{user.text('username')}:{user.text('password')}".encode(errors="replace")
        return StaticCredential(f"Basic {base64.b64encode(pair).decode()}")
    return StaticCredential()


def _exec_plugin(plugin: _Field, cluster: _Field) -> ExecPlugin:
    command = plugin.text("command", required=True)
    # A name is looked up in PATH, and a path is relative to the kubeconfig (client-go, tools/clientcmd/loader.go).
    separators = {os.sep, os.altsep or os.sep}
    mode = plugin.text("interactiveMode") or "IfAvailable"
    if mode not in ("Never", "IfAvailable", "Always"):
        raise ConfigError(f"{plugin.at('interactiveMode')}: invalid {mode!r}: expected Never, IfAvailable or Always")
    env = {}
    for number, entry in enumerate(plugin.items("env")):
        variable = _Field(plugin.file, f"{plugin.path}.env[{number}]", entry)
        env[variable.text("name", required=True)] = variable.text("value")
    return ExecPlugin(
        where=f"{plugin.file}: {plugin.path}",
        command=plugin.resolve("command") if separators & set(command) else command,
        args=plugin.strings("args"),
        env=env,
        api_version=plugin.text("apiVersion", required=True),
        interactive_mode=mode,
        install_hint=plugin.text("installHint"),
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def _cluster_info(cluster: _Field) -> dict[str, object]:
    """Return `spec.cluster` of the ExecCredential passed to a plugin (client-go, pkg/apis/clientauthentication)."""
    info: dict[str, object] = {"server": cluster.text("server")}
    for name in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
        if cluster.value.get(name):
            info[name] = cluster.value[name]
    ca = cluster.pem("certificate-authority")
    if ca is not None:
        info["certificate-authority-data"] = base64.b64encode(ca.read()).decode()
    for entry in cluster.items("extensions"):
        if isinstance(entry, dict) and entry.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = entry.get("extension")
    try:
        json.dumps(info, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:  # a mapping of the program's may contain anything
        raise ConfigError(
            f"{cluster.at('extensions')}: cannot be passed to the plugin as JSON: {type(error).__name__}"
        ) from None
    return info


def _impersonation(user: _Field) -> Iterator[tuple[str, str]]:
    name = user.text("as")
    extra = user.mapping("as-user-extra")
    if not name:
        if user.value.get("as-groups") or user.value.get("as-uid") or extra.value:
            raise ConfigError(f"{user.at('as')}: is missing, but as-groups, as-uid or as-user-extra is set")
        return
    yield "Impersonate-User", header_text(name, where=user.at("as"))
    if user.text("as-uid"):
        yield "Impersonate-Uid", header_text(user.text("as-uid"), where=user.at("as-uid"))
    for group in user.strings("as-groups"):
        yield "Impersonate-Group", header_text(group, where=user.at("as-groups"))
    for key in extra.value:
        # Percent-encoded as in client-go (transport/round_trippers.go, headerKeyEscape), because a key may contain a
        # slash.
        header = f"Impersonate-Extra-{quote(str(key), safe=_HEADER_KEY)}"
        for value in extra.strings(key):
            yield header, header_text(value, where=extra.at(key))
