"""Starts processes on an emulated host, for tests that themselves run in the CPU environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchrec_ascend import emulator
from torchrec_ascend.emulator import Emulation

HERE = Path(__file__).resolve().parent

# torch_npu prints it where CANN's set_env.sh was not sourced; with that variable set it goes on to
# look for files of a CANN installation.
_NOTICE = "Warning: ASCEND_HOME_PATH environment variable is not set.\n"


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output without torch_npu's notice."""
    return done.stdout.replace(_NOTICE, "")


# A CPU fallback that nobody asked for would hide a missing NPU kernel.
_STRICT = {"TORCH_NPU_FALLBACK_CPU_DISABLE": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Emulated:
    """Starts processes on an emulated host."""

    libraries: Path

    def environment(
        self, soc: str, asynchronous: bool, env: Mapping[str, str] | None, **emulation: Any
    ) -> dict[str, str]:
        """That of a process on the emulated host, which finds this folder's modules too."""
        described = Emulation(soc=soc, asynchronous=asynchronous, **emulation)
        variables = emulator.environment(described)
        folders = [variables["PYTHONPATH"], str(HERE), str(emulator.ROOT)]
        variables["PYTHONPATH"] = os.pathsep.join(folders)
        return variables | _STRICT | dict(env or {})

    def run(
        self,
        script: str,
        *,
        soc: str = "a2",
        asynchronous: bool = False,
        env: Mapping[str, str] | None = None,
        seconds: float = 60,
        **emulation: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a Python script; `emulation` goes to :class:`torchrec_ascend.emulator.Emulation`."""
        return subprocess.run(
            [sys.executable, "-c", script],
            env=self.environment(soc, asynchronous, env, **emulation),
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def torchrun(
        self,
        script: str,
        ranks: int,
        *,
        soc: str = "a2",
        asynchronous: bool = False,
        env: Mapping[str, str] | None = None,
        seconds: float = 120,
        **emulation: Any,
    ) -> list[subprocess.CompletedProcess[str]]:
        """Runs a Python script on each of `ranks` processes, with torchrun's variables set."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        base = self.environment(soc, asynchronous, env, **emulation)
        base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        base |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script],
                env=base | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        try:
            results = []
            for process in processes:
                out, err = process.communicate(timeout=seconds)
                results.append(
                    subprocess.CompletedProcess(process.args, process.returncode, out, err)
                )
            return results
        finally:
            for process in processes:
                process.kill()
                process.communicate()
