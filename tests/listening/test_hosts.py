"""The host names that a server answers, by the rule that all servers of the package share."""

from __future__ import annotations

import pytest

from kinformer import ConfigError
from kinformer.listening import AllowedHosts

HOST, ORIGIN = b"Host", b"Origin"


def status(allowed: AllowedHosts, *headers: tuple[bytes, bytes], version: tuple[int, int] = (1, 1)) -> int:
    refusal = allowed.refusal(headers, version=version)
    return 200 if refusal is None else refusal[0]


@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.7:8080", "10.0.0.7", "[fd00::7]:8080", "[::1]", "fd00::7", "[fe80::1%eth0]:80", "127.0.0.1:"),
        *("localhost", "LocalHost:8080", "localhost.", "ops.example.com", "OPS.example.com.:443", "a.svc", "b.a.svc"),
    ],
)
def test_addresses_localhost_and_the_given_names_are_answered(host: str) -> None:
    allowed = AllowedHosts(["Ops.Example.com", "*.svc"])
    assert host in allowed
    assert status(allowed, (HOST, host.encode())) == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "notlocalhost"),
        *("localhost@evil.example", "evil.example@localhost", "[::1", "[localhost", "localhost:80:80", "localhost:x"),
        *("localhost, evil.example", "0x7f.1", "2130706433", "[10.0.0.7", "svc", "xsvc", ".svc", "*"),
        *("ops.example.com.evil.example", "b\xfccher.example", "..", "127.0.0.1/evil.example"),
    ],
)
def test_any_other_name_is_misdirected(host: str) -> None:
    assert status(AllowedHosts(["ops.example.com", "*.a.svc"]), (HOST, host.encode("latin-1"))) == 421


def test_a_star_allows_every_name() -> None:
    assert status(AllowedHosts(["*"]), (HOST, b"evil.example")) == 200


def test_the_servers_own_name_is_allowed() -> None:
    assert "operator.example:80" in AllowedHosts(own="Operator.example")
    assert "operator.example:80" not in AllowedHosts(own=None)


@pytest.mark.parametrize(
    ("headers", "version", "expected"),
    [
        ([(HOST, b"localhost"), (b"hOST", b"localhost")], (1, 1), 400),
        ([(HOST, b"localhost"), (HOST, b"evil.example")], (1, 0), 400),
        ([(HOST, b"localhost"), (ORIGIN, b"http://localhost"), (ORIGIN, b"http://localhost")], (1, 1), 400),
        ([(HOST, b"localhost"), (ORIGIN, b"http://evil.example")], (1, 1), 200),  # for the server to judge
        ([], (1, 1), 400),
        ([], (1, 0), 200),
        ([(HOST, b"")], (1, 0), 200),
        ([(HOST, b"")], (1, 1), 200),
        ([(HOST, b"evil.example")], (1, 0), 421),
        ([(HOST, b"localhost"), *((b"X-%d" % number, b"") for number in range(200))], (1, 1), 431),
    ],
)
def test_a_head_is_judged_as_in_go(headers: list[tuple[bytes, bytes]], version: tuple[int, int], expected: int) -> None:
    assert status(AllowedHosts(), *headers, version=version) == expected


def test_the_host_of_a_request_line_is_judged_like_that_of_the_header() -> None:
    refusal = AllowedHosts().refusal([(HOST, b"localhost")], target="evil.example")
    assert refusal is not None
    assert refusal[0] == 421
    assert AllowedHosts().refusal([(HOST, b"localhost")], target="::1") is None


@pytest.mark.parametrize("name", ["http://a.example", "a.example:80", "a.example/", "", "a b", "*.", "*a", "a..b", "ä"])
def test_a_name_that_no_host_header_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid allowed host"):
        AllowedHosts([name])


def test_a_single_string_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"such as \['ops.example.com'\]"):
        AllowedHosts("ops.example.com")
