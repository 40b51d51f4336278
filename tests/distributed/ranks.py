"""Real processes for distributed tests: a world is started once and runs many tests.

`World.run(fn, *args)` calls `fn(*args)` on every rank, with torch.distributed initialised (gloo on
loopback, or the backend of the device), and returns the results by rank. A failure on any rank is
raised here with that rank's traceback. A rank that does not answer in time is killed with its whole
world, and the next test gets a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

START_SECONDS = 120
RUN_SECONDS = 120


class World:
    """`size` processes; `local_size` of them count as one node.

    device: type of each rank's device. environment: the processes', or the caller's where None.
    """

    def __init__(
        self,
        size: int,
        local_size: int,
        device: str = "cpu",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.size = size
        self.local_size = local_size
        self.device = device
        self._environment = environment
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, fn: Callable[..., Any], *args: Any, seconds: float = RUN_SECONDS) -> list[Any]:
        """`fn(*args)` on every rank; results by rank. `fn` must be importable."""
        if not self._processes:
            self._start()
            self._gather(START_SECONDS)
        for pipe in self._pipes:
            pipe.send((fn, args))
        return self._gather(seconds)

    def _gather(self, seconds: float) -> list[Any]:
        deadline = time.monotonic() + seconds
        results: dict[int, Any] = {}
        errors: dict[int, str] = {}
        while len(results) + len(errors) < self.size:
            waiting: dict[Any, int] = {
                pipe: rank
                for rank, pipe in enumerate(self._pipes)
                if rank not in results and rank not in errors
            }
            ready = wait(list(waiting), timeout=deadline - time.monotonic())
            if not ready:
                self.stop()
                raise TimeoutError(
                    f"ranks {sorted(waiting.values())} did not answer in {seconds} s; "
                    f"errors elsewhere: {errors or 'none'}"
                )
            for pipe in ready:
                rank = waiting[pipe]
                ok, value = self._receive(rank)
                if ok:
                    results[rank] = value
                else:
                    errors[rank] = value
            if errors:  # the others may wait for the failed rank for ever
                deadline = min(deadline, time.monotonic() + 10)
        if errors:
            alive = all(process.is_alive() for process in self._processes)
            if len(errors) < self.size or not alive:
                self.stop()  # the ranks are no longer in step
            text = "\n".join(f"--- rank {r}\n{e}" for r, e in sorted(errors.items()))
            raise AssertionError(f"failed on ranks {sorted(errors)}:\n{text}")
        return [results[rank] for rank in range(self.size)]

    def _receive(self, rank: int) -> tuple[bool, Any]:
        try:
            return self._pipes[rank].recv()
        except EOFError:
            return False, f"exit code {self._processes[rank].exitcode}"

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="torchrec_ascend_world_")
        store = Path(self._folder.name) / "store"
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(theirs, rank, self.size, self.local_size, self.device, store),
                daemon=True,
            )
            with _environ(self._environment):  # a spawned process starts with the caller's
                process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@contextmanager
def _environ(environment: Mapping[str, str] | None) -> Iterator[None]:
    if environment is None:
        yield
        return
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(
    pipe: Connection, rank: int, size: int, local_size: int, device: str, store: Path
) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank % local_size),
        LOCAL_WORLD_SIZE=str(local_size),
        NPU_EMU_HOST=str(rank // local_size),  # for emulated NPUs
        GLOO_SOCKET_IFNAME="lo",
    )
    # A spawned process takes its parent's sys.path and not the PYTHONPATH it was started with.
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        from torchrec_ascend.device import collective_backend, rank_device

        rank_device(device)
        backend = collective_backend(device)
        # A file store needs no port.
        dist.init_process_group(backend, f"file://{store}", rank=rank, world_size=size)
        pipe.send((True, None))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        return
    while True:
        try:
            fn, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, fn(*args)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
