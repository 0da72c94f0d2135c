"""Text without credentials: URLs as messages show them, and the output of other programs.

Every message that quotes a URL, a path of a kubeconfig or the output of a program gets its text from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["HIDDEN", "is_secret_name", "showable_file", "showable_output", "showable_url"]

HIDDEN = "***"

_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]*\]|[\w.-]*)(?P<colon>:?)(?P<port>.*)", re.DOTALL)


def showable_url(url: str) -> str:
    """Return a URL or a path without the parts that may contain a credential.

    User, password, query and fragment are hidden, and so is a host or port that is not valid. Text without a scheme
    that is not a path either is hidden as a whole.
    """
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        return _without_query(url) if url.startswith("/") else HIDDEN
    # Up to the last @, because an unquoted password may contain any character.
    user, at, rest = rest.rpartition("@")
    end = re.search(r"[/?#]", rest)
    place, path = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    match = _PLACE.fullmatch(place)
    if match and match["port"] and not (match["colon"] and _is_port(match["port"])):
        place = f"{match['host']}:{HIDDEN}" if match["colon"] else HIDDEN
    return f"{scheme}://{HIDDEN + at if at else user}{place}{_without_query(path)}"


def _is_port(port: str) -> bool:
    return port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535


def _without_query(path: str) -> str:
    """Return a path without query and fragment, with a mark in their place."""
    match = re.search(r"[?#]", path)
    return f"{path[: match.start()]}{match[0]}{HIDDEN}" if match else path


def showable_file(value: str) -> str:
    """Return the value of a field that names a file, or a mark if it may be the content of one.

    A key or a token is easily put into `client-key` or `tokenFile`. So only what begins like a path is shown.
    """
    is_path = re.match(r"[/~\\]|\.\.?[/\\]|[A-Za-z]:[/\\]", value)
    return value if is_path and value.isprintable() else HIDDEN


# --- the output of a program ------------------------------------------------------------------------------------------

_LAST = 8000  # characters of the output that are looked at, because the end has the reason of a failure
_SHORTEST_KNOWN = 4  # characters. Shorter values, such as "1", would be found everywhere

_SECRET_NAME = (
    r"[\w.-]{0,64}(?:token|secret|passw|passphrase|pwd|credential|api-?key|access-?key|private-?key|key-?data|session"
    r"|cookie|assertion|authori[sz]ation|signature)[\w.-]{0,64}"
)
_PATTERNS = (  # compiled at their first use, because that takes milliseconds
    r"(?s)-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)",
    r"(?<=://)[^\s/]*@",
    r"(?<=[?&#])[\w.-]+=[^\s&#'\"]*",
    r"(?i)\b(?:bearer|basic|negotiate)\s+[^\s'\"]+",
    # The name of a secret and its value: TOKEN=x, "token": "x", --token x, token: x y.
    (
        rf"(?i)(?P<name>--?{_SECRET_NAME}[\s=]+|{_SECRET_NAME}\\*[\"']?\s*[=:]\s*)"
        r"(?:\\*\"[^\"\n]*\"?|'[^'\n]*'?|[^\n]+?(?=[\"']|\n|\Z))"
    ),
)
_WORD = re.compile(r"[A-Za-z0-9+/=_.~-]{16,}")


def is_secret_name(name: str) -> bool:
    """Return True if a variable with this name probably holds a credential."""
    return re.fullmatch(_SECRET_NAME, name, re.IGNORECASE) is not None


def showable_output(output: str, known: Iterable[str] = ()) -> str:
    """Return the last lines of a program's output without everything that looks like a credential.

    That is: PEM, headers, users and queries of URLs, values after names such as `token`, long words of mixed
    characters, and the `known` values.
    """
    output = output.strip()
    if len(output) > _LAST:
        output = output[-_LAST:].partition("\n")[2]  # a value without its name could not be recognized
    for value in sorted({text for text in known if len(text) >= _SHORTEST_KNOWN}, key=len, reverse=True):
        output = output.replace(value, HIDDEN)
    for pattern in _PATTERNS:
        output = re.sub(pattern, lambda match: f"{match.groupdict().get('name', '')}{HIDDEN}", output)
    return _WORD.sub(lambda match: HIDDEN if _looks_secret(match[0]) else match[0], output)


def _looks_secret(word: str) -> bool:
    """Return True for a long word of mixed characters: a key, a hash, a JWT.

    The parts of a path or a host name are judged one by one, but also together if they have both cases and digits, as
    base64 has.
    """
    if any(len(part) >= 16 and _classes(part) >= 2 for part in re.split(r"[/.=]", word)):
        return True
    return len(word) >= 24 and _classes(word) == 3


def _classes(word: str) -> int:
    """Return how many of lower case, upper case and digits a word has, or 0 without digits."""
    has_digit = any(char.isdecimal() for char in word)
    return has_digit * (1 + any(char.islower() for char in word) + any(char.isupper() for char in word))
