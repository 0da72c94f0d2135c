"""`kinformer version`: the versions of kinformer and of the server, in the form of `kubectl version`."""

from __future__ import annotations

import asyncio
import json
import platform
from typing import Any

from kinformer import KinformerError, __version__
from kinformer.cli.output.errors import complain
from kinformer.cli.output.text import clean
from kinformer.cli.target import Server

__all__ = ["version"]

_PATIENCE = 10.0  # seconds for the server


async def version(server: Server | None, *, output: str) -> int:
    """Print the versions to stdout.

    Args:
        server: The server, or None to ask none.
        output: "table" or "json".

    Returns:
        0, or 1 if the server could not be asked. The client's version is printed anyway.
    """
    versions: dict[str, Any] = {
        "clientVersion": {
            "version": __version__,
            "python": platform.python_version(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
    }
    failure: BaseException | str | None = None
    if server is not None:
        try:
            versions["serverVersion"] = await _server_version(server)
        except TimeoutError:
            failure = f"the server did not answer within {_PATIENCE:g} s"
        except (KinformerError, OSError) as error:
            failure = error
    if output == "json":
        print(json.dumps(versions, indent=2))
    else:
        client = versions["clientVersion"]
        print(f"Client Version: v{client['version']} (Python {client['python']}, {client['platform']})")
        if "serverVersion" in versions:
            print(f"Server Version: {clean(str(versions['serverVersion'].get('gitVersion', 'unknown')))}")
    return 0 if failure is None else complain(failure)


async def _server_version(server: Server) -> dict[str, Any]:
    async with server.client() as client:
        async with asyncio.timeout(_PATIENCE):
            return dict(await client.request("GET", "/version", retries=0))
