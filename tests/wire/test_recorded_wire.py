"""Every LIST and every watch that was recorded from a real API server decodes, whatever its chunks.

Internals: the parsers themselves, since a server cannot be made to cut a chunk at every byte.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.exceptions import APIError, DecodeError, ExpiredError, ResourceVersionTooLargeError, WatchError
from kinformer.list_watcher import WatchEvent
from kinformer.wire.decoder import EntryDecoder
from kinformer.wire.lines import LineFramer
from kinformer.wire.list_parser import ListSplitter
from tests.wire.list_items import kept_by

WIRE = Path(__file__).parent / "recorded"


def exchanges() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(WIRE.glob("*.jsonl"))
        for line in file.read_text().splitlines()
        if line.strip()
    ]


def body_of(exchange: dict[str, Any]) -> bytes:
    return (exchange["response_body"] or "").encode()


def is_json(exchange: dict[str, Any]) -> bool:
    head = exchange["response_head"]
    return " 200 " in head.split("\r\n")[0] and "json" in head.lower() and "gzip" not in head


def is_watch(exchange: dict[str, Any]) -> bool:
    return "watch=1" in exchange["path"] and is_json(exchange)


def is_list(exchange: dict[str, Any]) -> bool:
    if exchange["method"] != "GET" or is_watch(exchange) or not is_json(exchange):
        return False
    document = json.loads(body_of(exchange))
    return (
        isinstance(document, dict)
        and "items" in document
        and "List" in document["kind"]
        and "Discovery" not in document["kind"]
    )


ALL = exchanges()
LISTS = [exchange for exchange in ALL if is_list(exchange)]
WATCHES = [exchange for exchange in ALL if is_watch(exchange)]


def name(exchange: dict[str, Any]) -> str:
    return str(exchange["name"])


def without_managed_fields(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


def agree(obj: KubeObject, document: dict[str, Any]) -> None:
    metadata = document["metadata"]
    assert obj.to_dict() == without_managed_fields(document)
    assert (obj.kind, obj.api_version) == (document["kind"], document["apiVersion"])
    assert (obj.name, obj.namespace) == (metadata["name"], metadata.get("namespace", ""))
    assert (obj.uid, obj.resource_version) == (metadata["uid"], metadata["resourceVersion"])
    assert obj.labels == metadata.get("labels", {})
    assert obj.annotations == metadata.get("annotations", {})
    assert obj.creation_timestamp is not None
    assert [owner.uid for owner in obj.owner_references] == [o["uid"] for o in metadata.get("ownerReferences", [])]
    assert KubeObject.from_json(obj.raw) == obj


def chunked(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def test_there_are_lists_and_watches_to_look_at() -> None:
    assert len(LISTS) > 15
    assert len(WATCHES) > 15


@pytest.mark.parametrize("size", [1, 77, 65536])
@pytest.mark.parametrize("exchange", LISTS, ids=name)
def test_every_recorded_list_decodes(exchange: dict[str, Any], size: int) -> None:
    body = body_of(exchange)
    document = json.loads(body)
    decoder = EntryDecoder()
    splitter = ListSplitter(kept_by(decoder))
    items = [item for chunk in chunked(body, size) for item in splitter.feed(chunk)]
    header = splitter.close()
    metadata = document["metadata"]
    assert header.resource_version == metadata.get("resourceVersion", "")
    assert header.continue_token == metadata.get("continue", "")
    assert header.remaining_item_count == metadata.get("remainingItemCount")
    assert (header.kind, header.api_version) == (document["kind"], document["apiVersion"])
    assert len(items) == len(document["items"])
    stamp = {"kind": document["kind"].removesuffix("List"), "apiVersion": document["apiVersion"]}
    for item, expected in zip(items, document["items"], strict=True):
        agree(item, {**stamp, **expected})
    assert decoder.errors == 0


def recorded_events(body: bytes) -> list[dict[str, Any]]:
    # The last line may have been cut off by the end of the recording.
    return [json.loads(line) for line in body.split(b"\n")[:-1] if line]


@pytest.mark.parametrize("size", [1, 77, 65536])
@pytest.mark.parametrize("exchange", WATCHES, ids=name)
def test_every_recorded_watch_decodes(exchange: dict[str, Any], size: int) -> None:
    body = body_of(exchange)
    expected = recorded_events(body)
    decoder, framer = EntryDecoder(), LineFramer()
    events: list[WatchEvent | Exception] = []
    for chunk in chunked(body, size):
        for lines in framer.feed(chunk):
            while lines:
                usual: list[WatchEvent] = []
                decoder.fast.read(lines, 1 + size % 3, usual)
                events += usual
                try:
                    if line := lines.take() if lines else b"":
                        events.append(decoder.event(line))
                except (APIError, WatchError) as error:
                    events.append(error)
    assert len(events) == len(expected)
    for event, wanted in zip(events, expected, strict=True):
        document = wanted["object"]
        if wanted["type"] == "ERROR":
            assert isinstance(event, APIError)
            assert (event.status, event.reason, event.message) == (
                document["code"],
                document["reason"],
                document["message"],
            )
        elif document["kind"] == "Table":
            assert isinstance(event, WatchError)
        elif wanted["type"] == "BOOKMARK":
            assert isinstance(event, WatchEvent)
            assert event.object.resource_version == document["metadata"]["resourceVersion"]
            assert event.object.annotations == document["metadata"].get("annotations", {})
        else:
            assert isinstance(event, WatchEvent)
            assert event.type == wanted["type"]
            agree(event.object, document)


def test_the_recorded_errors_are_those_that_a_reflector_knows() -> None:
    raised: set[type] = set()
    for exchange in WATCHES:
        for line in body_of(exchange).split(b"\n"):
            if line.startswith(b'{"type":"ERROR"'):
                with pytest.raises(APIError) as caught:
                    EntryDecoder().event(line)
                raised.add(type(caught.value))
                if isinstance(caught.value, ResourceVersionTooLargeError):
                    assert caught.value.retry_after == 1.0
    assert raised == {ExpiredError, ResourceVersionTooLargeError}


@pytest.mark.parametrize(
    "exchange",
    [e for e in ALL if e["method"] == "GET" and not is_watch(e) and not is_list(e) and e["response_body"]],
    ids=name,
)
def test_no_recorded_answer_that_is_no_list_passes_for_one(exchange: dict[str, Any]) -> None:
    def read() -> None:
        splitter: ListSplitter[bytes] = ListSplitter()
        splitter.feed(body_of(exchange))
        splitter.close()

    if "aggregated" in exchange["name"]:
        read()  # discovery documents are lists too
    else:
        with pytest.raises(DecodeError):
            read()
