"""A link of a given rate and delay between this machine and a network namespace on it, for benchmarks. Needs root.

    python -m benchmarks.studies.shaped_link --namespace NAME --megabits 100 --milliseconds 20

Two TUN devices, one at each end, and this process between them: a packet takes its time on the wire at the given rate,
then half of the round trip, and what does not fit into the buffer (a tenth of a second) is dropped, as a router does.
So TCP behaves as it does on such a link, and no kernel module is needed but tun. Packets have up to 9,000 bytes, for at
a gigabit a second this process has to keep up.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.harness import RESULTS

OURS, THEIRS = "10.213.77.1", "10.213.77.2"
DEVICE = "kinf-ours"
MTU = 9_000
BUFFER = 0.1  # seconds of the rate
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


class Direction:
    """One direction: packets from a device go to the other, later.

    Args:
        source, target: File descriptors of the devices.
        rate: Bytes a second.
        delay: Seconds.
    """

    def __init__(self, source: int, target: int, rate: float, delay: float) -> None:
        self.source = source
        self.dropped = 0
        self._target = target
        self._rate = rate
        self._delay = delay
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._free_at = 0.0

    def take(self) -> None:
        """Everything that the device has."""
        now = time.perf_counter()
        with suppress(BlockingIOError):
            while packet := os.read(self.source, MTU + 64):
                begins = max(now, self._free_at)
                if begins - now > BUFFER:
                    self.dropped += 1
                    continue
                self._free_at = begins + len(packet) / self._rate
                self._under_way.append((self._free_at + self._delay, packet))

    def give(self) -> float | None:
        """Send everything that is due; seconds until the next, None if there is none."""
        now = time.perf_counter()
        while self._under_way and self._under_way[0][0] <= now:
            with suppress(BlockingIOError):  # the other end takes no more: a lost packet
                os.write(self._target, self._under_way.popleft()[1])
        return max(0.0, self._under_way[0][0] - now) if self._under_way else None


def _device(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return fd


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def forward(namespace: str, megabits: float, milliseconds: float) -> None:
    """Until standard input ends, and with it the devices."""
    ours, theirs = _device(DEVICE), _device("kinf-theirs")
    _ip("link", "set", "kinf-theirs", "netns", namespace)
    for prefix, device, address in (([], DEVICE, OURS), (["-n", namespace], "kinf-theirs", THEIRS)):
        _ip(*prefix, "addr", "add", f"{address}/30", "dev", device)
        _ip(*prefix, "link", "set", device, "mtu", str(MTU), "txqueuelen", "10000", "up")
    rate, delay = megabits * 1e6 / 8, milliseconds / 2 / 1e3
    there, back = Direction(ours, theirs, rate, delay), Direction(theirs, ours, rate, delay)
    print("ready", flush=True)
    while True:
        due = [seconds for one in (there, back) if (seconds := one.give()) is not None]
        readable, _, _ = select.select([ours, theirs, sys.stdin], [], [], min(due) if due else None)
        if sys.stdin in readable:
            return
        for one in (there, back):
            if one.source in readable:
                one.take()


@contextmanager
def network_namespace(name: str) -> Iterator[str]:
    """A namespace without any link; it is gone afterwards."""
    _ip("netns", "add", name)
    try:
        yield name
    finally:
        _ip("netns", "del", name)


@contextmanager
def shaped_link(namespace: str, megabits: float, milliseconds: float) -> Iterator[None]:
    """The link, by a process of its own; `OURS` is this end, `THEIRS` the other. It is gone afterwards."""
    command = [sys.executable, "-m", "benchmarks.studies.shaped_link", "--namespace", namespace]
    command += ["--megabits", str(megabits), "--milliseconds", str(milliseconds)]
    with running(command, "the link was not made"):
        yield


@contextmanager
def running(command: list[str], complaint: str) -> Iterator[None]:
    """A process that says when it is ready, and is killed afterwards."""
    root = RESULTS.parent.parent
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"{complaint}; its output is above")
            yield
        finally:
            process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description="A link of a given rate and delay to a network namespace")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--megabits", type=float, required=True)
    parser.add_argument("--milliseconds", type=float, required=True, help="of a round trip")
    options = parser.parse_args()
    forward(options.namespace, options.megabits, options.milliseconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
