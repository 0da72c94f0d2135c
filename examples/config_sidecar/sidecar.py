"""A sidecar that writes ConfigMaps with a label to files, and runs a command when the files have changed.

    python examples/config_sidecar/sidecar.py --selector dashboards=yes --folder /etc/boards --hook "nginx -s reload"

A key of a ConfigMap is the file `<folder>/<namespace>/<name>/<key>`. The program blocks, and has no event loop of its
own; see docs/recipes/sidecar.md.
"""

from __future__ import annotations

import argparse
import base64
import logging
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from kinformer import KubeObject, blocking

log = logging.getLogger("sidecar")


def files_of(config: KubeObject) -> dict[Path, bytes]:
    """Return the files of a ConfigMap, by their path in the folder."""
    place = Path(config.namespace, config.name)
    texts = {place / key: text.encode() for key, text in (config.get("data") or {}).items()}
    return texts | {place / key: base64.b64decode(text) for key, text in (config.get("binaryData") or {}).items()}


def mirror(configs: Iterable[KubeObject], folder: Path) -> bool:
    """Make the folder have the files of these ConfigMaps and no others; True if anything had to be changed."""
    wanted = {folder / path: content for config in configs for path, content in files_of(config).items()}
    stale = [path for path in folder.rglob("*") if path.is_file() and path not in wanted]
    for path in stale:
        path.unlink()
        log.info("removed %s", path)
    changed = bool(stale)
    for path, content in wanted.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            new.write_bytes(content)
            new.replace(path)  # whole or not at all
            log.info("wrote %s", path)
            changed = True
    return changed


class Changes:
    """A handler, called in a worker thread, that lets the main thread wait for changes of the files."""

    def __init__(self) -> None:
        self._changed = threading.Event()

    def on_add(self, config: KubeObject, *, is_in_initial_list: bool) -> None:
        self._changed.set()

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        if files_of(old) != files_of(new):  # labels and annotations are in no file
            self._changed.set()

    def on_delete(self, config: KubeObject) -> None:
        self._changed.set()

    def wait(self, quiet: float, longest: float) -> None:
        """Wait for a change, and then until `quiet` seconds have passed without another, but not above `longest`."""
        while not self._changed.wait(1):
            pass  # without the GIL, an endless wait may overlook the signal that should end it
        end = time.monotonic() + longest
        while self._changed.is_set() and time.monotonic() < end:
            self._changed.clear()
            self._changed.wait(min(quiet, max(0.0, end - time.monotonic())))
        self._changed.clear()


def run_hook(command: list[str], pause: float = 1.0) -> None:
    """Run the command until it succeeds, after growing pauses."""
    while (status := subprocess.run(command, check=False).returncode) != 0:
        log.warning("%s has failed with status %d, again in %g s", shlex.join(command), status, pause)
        time.sleep(pause)
        pause = min(2 * pause, 60.0)


def run(
    informers: blocking.Informers, selector: str, folder: Path, command: list[str], *, quiet: float = 0.5
) -> NoReturn:
    """Keep the folder as the ConfigMaps are, and run the command after each change."""
    configs = informers.for_resource("v1/configmaps", label_selector=selector)
    configs.wait_synced(timeout=60, fail_fast=True)  # a missing right is an error here, in the server's words
    changes = Changes()
    configs.add_event_handler(changes)
    mirror(configs.lister.list(), folder)
    run_hook(command)  # even if nothing has changed: an earlier run may have ended before its hook
    while True:
        changes.wait(quiet, longest=10 * quiet)
        if mirror(configs.lister.list(), folder):
            run_hook(command)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--selector", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--hook", required=True)
    parser.add_argument("--namespace", action="append", help="may be repeated; default: all")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the main thread may be waiting; `with` is left in order
    with blocking.Informers(namespaces=options.namespace) as informers:
        run(informers, options.selector, options.folder, shlex.split(options.hook))


if __name__ == "__main__":
    main()
