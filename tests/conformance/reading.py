"""Reads of one small scene, each told in a few words: `Reader.answer("GET MAPS?limit=2 | Accept: TABLE")`.

A case is a method, a path and header fields. Its words in capitals stand for what is another one on each server.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import yaml

from tests.conformance.recordings import read
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap, pod
from tests.conformance.transcript import TIME, UID
from tests.support.apiserver_http import Reply
from tests.support.kube import widget_definition

__all__ = ["Reader", "TextReader", "make_odd_scene", "make_scene", "widgets_of"]

META = "v=v1;g=meta.k8s.io"
FORMS = {
    "TABLE": f"application/json;as=Table;{META}",
    "METADATA": f"application/json;as=PartialObjectMetadataList;{META}",
    "METADATAONE": f"application/json;as=PartialObjectMetadata;{META}",
}
USUAL = {
    "content-type": "application/json",
    "cache-control": "no-cache, private",
    "vary": None,
    "content-encoding": None,
    "retry-after": None,
    "warning": None,
    "allow": None,
    "location": None,
}
Words = dict[str, str]

COLUMNS = [
    {"name": name, "type": "string", "jsonPath": path}
    for name, path in (("Text", ".spec.text"), ("Spec", ".spec"), ("Number", ".spec.w"), ("Nested", ".spec.nested"))
]


class Reader:
    """Asks a site.

    Args:
        site: The server, and the namespace of the scene.
        words: What words in capitals stand for.
    """

    def __init__(self, site: Site, words: Words) -> None:
        self.site = site
        core = f"/api/v1/namespaces/{site.namespace}"
        paths = {"MAPS": f"{core}/configmaps", "PODS": f"{core}/pods", "ALL": "/api/v1/configmaps"}
        self.words = {"NS": site.namespace, **paths, **words, **FORMS}
        self._word = re.compile(rf"(?:(?<=%3D)|\b)(?:{'|'.join(self.words)})\b")
        self._numbers = {self.words[name]: name for name in ("OLD", "NOW", "NEWEST", "FUTURE") if name in words}

    async def answer(self, case: str) -> Any:
        """Return the answer to a case: its status, what its body tells, and unusual header fields."""
        request, *fields = case.split(" | ")
        headers = dict[str, str]()
        for field in fields:
            name, _, value = field.partition(": ")
            headers[name] = self._filled(value)
        method, _, path = request.partition(" ")
        if method == "WALK":
            return [page async for page in self._walk(case, path, headers)]
        if method == "HEAD":  # a body that is announced does not come
            headers["Connection"] = "close"
        try:
            reply = await self._ask(method, self._filled(path), headers)
        except TimeoutError:
            return "no end"
        return self._told(case, reply)

    async def _ask(self, method: str, path: str, headers: dict[str, str]) -> Reply:
        named: dict[str, Any] = {name.replace("-", "_"): value for name, value in headers.items()}
        return await self.site.ask(method, path, kept=False, **named)

    async def _walk(self, case: str, path: str, headers: dict[str, str]) -> AsyncIterator[str]:
        token = ""
        for _ in range(20):
            reply = await self._ask("GET", f"{self._filled(path)}{token and f'&continue={token}'}", headers)
            yield self._told(case, reply)[1]
            if not (token := reply.json["metadata"].get("continue", "")):
                return

    def _filled(self, text: str) -> str:
        """Put words in, and make tokens of `continue=json:...` and `continue=text:...`."""
        text = self._word.sub(lambda word: self.words[word[0]], text)
        head, form, token = text.partition("continue=json:") if "=json:" in text else text.partition("continue=text:")
        if not form:
            return text
        token, _, more = token.partition("&")
        data = json.dumps(json.loads(token), separators=(",", ":")) if "json:" in form else token.replace("%20", " ")
        packed = base64.urlsafe_b64encode(data.encode()).decode().rstrip("=")
        return f"{head}continue={packed}{more and f'&{more}'}"

    # --- what an answer tells ---------------------------------------------------------------------------------

    def _told(self, case: str, reply: Reply) -> list[Any]:
        body = reply.body
        if "gzip" in reply.headers.get("content-encoding", ""):
            body = gzip.decompress(body)
        kind = reply.headers.get("content-type", "")
        unusual = {name: reply.headers.get(name) for name, usual in USUAL.items() if reply.headers.get(name) != usual}
        told = self._body(case, kind, body)
        if isinstance(told, str) and not reply.clean and case[:4] != "HEAD":
            told += " (cut)"
        if b"\n  " in body and "json" in kind:
            unusual["form"] = "indented"
        return [reply.status, told, unusual] if unusual else [reply.status, told]

    def _body(self, case: str, kind: str, body: bytes) -> Any:
        if "protobuf" in kind:
            name = re.search(rb"[A-Z]\w+", body[:80])
            return f"protobuf {name[0].decode() if name else ''}"
        try:
            if "yaml" in kind:
                return self._document(case, yaml.safe_load(body))
            if "json" in kind and b'{"type":"' in body[:9]:
                events = [self._event(case, json.loads(line)) for line in body.splitlines()]
                return ", ".join(event for event in events if event)
            if "json" in kind and body:
                return self._document(case, json.loads(body))
        except ValueError:
            pass
        return self._text(body.decode(errors="replace")[:300])

    def _document(self, case: str, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        kind, metadata = document.get("kind"), document.get("metadata") or {}
        if kind == "Status":
            said = {name: document[name] for name in ("reason", "details") if name in document}
            token = {"continue": self._token(case, metadata["continue"])} if metadata.get("continue") else {}
            return {"message": self._text(document.get("message", "")), **_filled(self._text, said), **token}
        if "rows" in document:
            columns = len(document["columnDefinitions"] or ())
            items = [self._row(row) for row in document["rows"]]
            kind = f"{kind} {document['apiVersion'].partition('/')[2]} of {columns} columns"
        elif "items" in document:
            items = [self._item(item) for item in document["items"] or ()]
            kind = kind if document["items"] is not None else f"{kind} of null"
        else:
            return self._text(f"{kind} {metadata.get('name', '')}").rstrip()
        page = f"; continue {self._token(case, metadata['continue'])}" if metadata.get("continue") else ""
        rest = f"; {metadata['remainingItemCount']} remain" if "remainingItemCount" in metadata else ""
        return f"{kind} {self._version(case, metadata.get('resourceVersion', ''))}: {' '.join(items)}{page}{rest}"

    def _row(self, row: dict[str, Any]) -> str:
        name = str(row["cells"][0]) if row["cells"] else ""
        return name if row["object"] is None else f"{name}({row['object']['kind']})"

    def _item(self, item: dict[str, Any]) -> str:
        name = str(item["metadata"]["name"])
        return f"{name}({item['kind']})" if "kind" in item else name

    def _event(self, case: str, event: dict[str, Any]) -> str:
        document = event["object"]
        if event["type"] == "ERROR":
            return f"ERROR {document.get('code')} {document.get('reason')}: {self._text(document['message'])}"
        if event["type"] == "BOOKMARK":  # another one than that after the initial events comes when it likes
            shown = document["rows"][0]["object"] if "rows" in document else document
            is_end = "annotations" in shown["metadata"]
            return f"BOOKMARK {self._version(case, shown['metadata']['resourceVersion'])}" if is_end else ""
        told = self._document(case, document)
        return f"{event['type']} {told}"

    def _version(self, case: str, version: str) -> str:
        if not version.isdigit():
            return version or "no version"
        if version == self.words["NEWEST"] and ("TOKEN" in case or "WHOLE" in case):
            return "PAGE"
        named = self._numbers.get(version)
        exact = "Exact" in case or ("limit" in case and "Match" not in case)
        if named == "OLD" or f'rv":{named}' in case or (exact and f"resourceVersion={named}" in case):
            return str(named)
        return "NEW" if int(version) >= int(self.words["NOW"]) else "PAST"

    def _token(self, case: str, token: str) -> str:
        try:
            fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            assert fields.pop("v") == "meta.k8s.io/v1"
            start = self._text(fields.pop("start").removesuffix("\0"))
            version = self._version(case, str(fields.pop("rv")))
            assert not fields
        except (ValueError, KeyError, AssertionError, binascii.Error):
            return f"malformed {token}"
        return f"{version} after {start}"

    def _text(self, text: str) -> str:
        text = text.replace(self.site.namespace, "NS")
        text = re.sub(r"\d{2,}", lambda number: self._numbers.get(number[0], number[0]), text)
        return re.sub(r"(current: |version: OLD \(|version: 1 \()(\d+|NEWEST|NOW)", r"\1N", text)


class TextReader(Reader):
    """Tells bodies character by character, with times, uids and versions taken out."""

    def _told(self, case: str, reply: Reply) -> list[Any]:
        text = reply.body.decode().replace(self.site.namespace, "NS")
        for pattern, stands_for in (
            (UID, "UID"),
            (TIME, "TIME"),
            (r'(?<=ersion":)( ?)"\d+"', r'\1"RV"'),
            ('"\\d+s"', '"AGE"'),
        ):
            text = re.sub(pattern, stands_for, text)
        return [reply.status, text]


def _filled(change: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _filled(change, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(change, inner) for inner in value]
    return change(value) if isinstance(value, str) else value


async def make_scene(site: Site) -> Words:
    """Make a few objects, and return the words of the cases about them.

    At the version OLD there are the configmaps a, b, c and x. At NOW, their newest change, x is gone, d and e have come
    and b has changed. NEWEST is a later version, of something else.
    """

    async def made(name: str, **labels: str) -> str:
        body = {**configmap(name), "metadata": {"name": name, "labels": {"scene": site.namespace, **labels}}}
        return str((await site.make(site.configmaps, body))["metadata"]["resourceVersion"])

    await made("a", app="web")
    await made("b", app="web", tier="x", n="2")
    await made("x", app="db")
    old = await made("c", app="db")
    await made("d")
    await site.ask("DELETE", f"{site.configmaps}/x", kept=False)
    await site.patch(f"{site.configmaps}/b", {"data": {"more": "1"}}, kept=False)
    now = await made("e", n="5")
    for name, node, status in (
        ("p1", "n1", {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}),
        ("p2", "n2", {"phase": "Running"}),
        ("p3", "", {"phase": "Pending"}),
    ):
        body = pod(name)
        if node:
            body["spec"]["nodeName"] = node
        await site.make(site.pods, body)
        await site.patch(f"{site.pods}/{name}/status", {"status": status}, kept=False)
    large = pod("large")
    large["metadata"]["annotations"] = {"text": "x" * 200_000}
    await site.make(site.pods, large)
    secret = await site.make(site.core("secrets"), {"metadata": {"name": "elsewhere"}})
    newest = secret["metadata"]["resourceVersion"]
    for path in (site.configmaps, site.pods):  # until its caches are as new
        await site.get(f"{path}?resourceVersion={newest}&resourceVersionMatch=NotOlderThan", kept=False)
    words = {"OLD": old, "NOW": now, "NEWEST": newest, "FUTURE": str(int(newest) + 1_000_000)}
    return {**words, "TOKEN": _token(newest, "b"), "WHOLE": _token(newest, f"/{site.namespace}/b")}


def widgets_of(group: str, columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the definition of a kind with any fields, and with these columns."""
    text = json.dumps(widget_definition(additionalPrinterColumns=columns)).replace("example.com", group)
    body: dict[str, Any] = json.loads(text)
    return body


async def make_odd_scene(site: Site) -> Words:
    """Make objects with odd characters and numbers, and return the words of the cases about them."""
    group = f"{site.namespace}.example.com"
    widgets = site.of(f"{group}/v1", "widgets")
    await site.server.install_crds(widgets_of(group, COLUMNS))
    await site.until(widgets, 200)
    paths = {"MAPS": site.configmaps, "WIDGETS": widgets, "EVENTS": site.core("events")}
    versions = []
    for word, text in read("characters.objects").items():  # as text, whose escapes matter
        made = await site.make(paths[word], text.replace("NS", site.namespace))
        versions.append(made["metadata"]["resourceVersion"])
    await site.patch(f"{site.configmaps}/odd", {"metadata": {"labels": {"app": "x"}}}, kept=False)
    await site.patch(f"{site.configmaps}/odd", {"metadata": {"labels": {"app": "y"}}}, kept=False)
    return {**paths, "OLD": versions[0]}


def _token(version: str, start: str) -> str:
    fields = {"v": "meta.k8s.io/v1", "rv": int(version), "start": f"{start}\0"}
    return base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).decode().rstrip("=")
