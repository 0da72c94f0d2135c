"""The requests and answers of a test, with everything random replaced, in a file that a real server wrote.

A transcript is recorded on a real kube-apiserver (`pytest tests/conformance --record-transcripts`) and then compared
on both servers: the embedded one has to answer the same, and a real one of another version tells what has changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Transcript", "differences"]

HEADERS = ("content-type", "warning", "retry-after", "cache-control", "vary", "x-content-type-options")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
HOST = re.compile(r"127\.0\.0\.1:\d+")
CLUSTER_IP = re.compile(r"\b10\.0\.0\.\d+\b")
AGE = re.compile(r"^(\d+[smhdy])+$|^<invalid>$")
NO_BREAK_SPACE = "\xa0"  # Go's printer of differences takes it or a space, at random for each process
REVISION = re.compile(
    r"(resource ?[vV]ersion[^0-9]{0,12}|ResourceVersion in [a-z ]+: |current: |StorageError.*?|\()(\d{1,})"
)


class Transcript:
    """The exchanges of one test, in order."""

    def __init__(self, namespace: str) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self._words: dict[str, str] = {namespace: "NS"} if namespace else {}
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}

    def name(self, text: str, stands_for: str) -> None:
        """Replace a text that differs between runs."""
        self._words[text] = stands_for

    def request(self, method: str, path: str, headers: dict[str, str], body: Any) -> dict[str, Any]:
        """A new exchange, to be completed by its answer."""
        exchange: dict[str, Any] = {"request": self._path(f"{method} {path}")}
        if headers:
            exchange["headers"] = {name: self._text(value) for name, value in headers.items()}
        if body is not None:
            exchange["body"] = self.clean(body)
        self.exchanges.append(exchange)
        return exchange

    def answer(self, exchange: dict[str, Any], status: int, headers: dict[str, str], body: Any) -> None:
        exchange["status"] = status
        exchange["answer headers"] = {name: self._text(headers[name]) for name in HEADERS if name in headers}
        if body is not None:
            exchange["answer"] = self.clean(body)

    def event(self, exchange: dict[str, Any], event: Any) -> None:
        exchange.setdefault("events", []).append(self.clean(event))

    def clean(self, value: Any, key: str = "", within: str = "") -> Any:
        """The value with times, uids, versions, tokens and the namespace replaced; the same stays the same."""
        if isinstance(value, dict):
            return {self._text(name): self.clean(item, name, self._kind(value, within)) for name, item in value.items()}
        if isinstance(value, list):
            return [self.clean(item, key, within) for item in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion":
            return self._revision(value, within)
        if key == "continue" and value:
            return "TOKEN"
        if key in ("serverAddress", "storageVersionHash"):
            return key.upper()
        if key == "kubernetes.io/initial-events-list-blueprint":  # an empty list in base64, namespace included
            return "BLUEPRINT"
        if key == "cells" and AGE.match(value):
            return "AGE"
        return self._text(value)

    @staticmethod
    def _kind(value: dict[str, Any], within: str) -> str:
        if (
            str(value.get("kind", "")).endswith("List")
            or value.get("type") == "BOOKMARK"
            or "columnDefinitions" in value
        ):
            return "list"
        # the metadata of a list or of a bookmark is still the list's; that of an item is not
        return within if within == "list" and "uid" not in value and "items" not in value else ""

    def _revision(self, value: str, within: str) -> str:
        if value in ("", "0"):
            return value
        if within == "list":
            return "RV"  # other writers move it on a server that is shared
        return self._revisions.setdefault(value, f"rv-{len(self._revisions) + 1}")

    def _text(self, text: str) -> str:
        for word, stands_for in self._words.items():
            text = text.replace(word, stands_for)
        text = UID.sub(lambda match: self._uids.setdefault(match[0], f"uid-{len(self._uids) + 1}"), text)
        text = CLUSTER_IP.sub("CLUSTER-IP", HOST.sub("HOST", TIME.sub("TIME", text)))
        text = text.replace("https://HOST", "http://HOST").replace(NO_BREAK_SPACE, " ")
        if "resource version" in text.lower() or "resourceversion" in text.lower() or "StorageError" in text:
            text = REVISION.sub(r"\1N", text)
        return text

    def _path(self, text: str) -> str:
        text = re.sub(r"(resourceVersion=)([1-9]\d*)", lambda m: m[1] + self._revision(m[2], ""), self._text(text))
        return re.sub(r"(continue=)([\w%-]{20,})", r"\1TOKEN", text)

    def write(self, file: Path) -> None:
        """One exchange a line."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in self.exchanges), encoding="utf-8")

    @staticmethod
    def read(file: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _by_manager(entries: list[Any]) -> list[Any]:
    """A server sorts them by their time first, so it depends on when a second was over which manager comes first."""
    return sorted(entries, key=lambda one: [str(one.get(name)) for name in ("operation", "subresource", "manager")])


def differences(real: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every place where two documents differ: its path, what the recording has there, and what came now."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in [*real, *(name for name in ours if name not in real)]:
            yield from differences(real.get(name, MISSING), ours.get(name, MISSING), f"{path}.{name}")
    elif isinstance(real, list) and isinstance(ours, list):
        if path.endswith(".managedFields"):
            real, ours = _by_manager(real), _by_manager(ours)
        for number in range(max(len(real), len(ours))):
            left = real[number] if number < len(real) else MISSING
            right = ours[number] if number < len(ours) else MISSING
            yield from differences(left, right, f"{path}[{number}]")
    elif real != ours or type(real) is not type(ours):
        yield path, real, ours


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
