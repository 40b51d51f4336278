"""Runs a command on emulated Ascend NPUs: the real torch_npu on the emulated CANN of this checkout.

    python -m torchrec_ascend.emulator [options] -- COMMAND [ARGS]

builds what is missing, sets the environment, and replaces itself by COMMAND. Nothing emulated says
anything about a card's speed or numerics (kernels/emulator/README.md).

Everything lands in build/emulator, or in the folder that TORCHREC_ASCEND_EMULATOR names, where
several checkouts may share it: torch_npu, and one folder of libraries per content of the sources.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from torchrec_ascend.device import chip

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "kernels/common.cmake",
    "kernels/emulator",
    "kernels/layout_transform_ops",
    "requirements/npu.txt",
)
VENDOR = "torchrec_ascend"
# Fault knobs and the form of their values; what they do is in kernels/emulator/README.md.
FAULTS = {
    "fail_alloc": r"\d+\+?",
    "collective_zeros": r"[a-z]+",
    "drop_rank": r"\d+@\d+",
    "delay_link": r"\d+-\d+@\d+",
}


@dataclass(frozen=True)
class Emulation:
    """What is emulated.

    Args:
        soc: a chip's name or family (:func:`torchrec_ascend.device.chip`).
        devices: NPUs of the host.
        asynchronous: streams run behind the host, each on a thread; else inside the call.
        delay_us: microseconds before each task of a stream; asynchronous only.
        hbm_bytes: memory of one device; default: the chip's.
        operator_package: whether our compiled operators are installed in the emulated CANN.
        faults: fault knobs, NAME=VALUE (kernels/emulator/README.md).
        trace: file that gets one line per call, or "1" for standard error.
    """

    soc: str = "a2"
    devices: int = 8
    asynchronous: bool = False
    delay_us: int = 0
    hbm_bytes: int | None = None
    operator_package: bool = True
    faults: tuple[str, ...] = ()
    trace: str = ""

    def variables(self) -> dict[str, str]:
        """The variables that describe the emulated host."""
        emulated = chip(self.soc)
        if self.devices < 1:
            raise ValueError(f"devices is {self.devices}, expected 1 or more")
        if self.hbm_bytes is not None and self.hbm_bytes < 1 << 20:
            raise ValueError(f"hbm_bytes is {self.hbm_bytes}, expected 1 MiB or more")
        if self.delay_us < 0 or (self.delay_us and not self.asynchronous):
            raise ValueError(
                f"delay_us is {self.delay_us}, expected 0 or more, and 0 unless asynchronous"
            )
        for fault in self.faults:
            name, _, value = fault.partition("=")
            if name not in FAULTS or not re.fullmatch(FAULTS[name], value):
                raise ValueError(
                    f"fault {fault!r}, expected NAME=VALUE with one of "
                    + ", ".join(f"{known}={form}" for known, form in FAULTS.items())
                )
        values = {
            "NPU_EMU_SOC": emulated.soc,
            "NPU_EMU_ARCH": emulated.arch,
            "NPU_EMU_DEVICES": self.devices,
            "NPU_EMU_CUBE_CORES": emulated.cube_cores,
            "NPU_EMU_VECTOR_CORES": emulated.vector_cores,
            "NPU_EMU_HBM_BYTES": self.hbm_bytes or emulated.hbm_bytes,
            "NPU_EMU_L2_BYTES": emulated.l2_bytes,
            "NPU_EMU_UB_BYTES": emulated.ub_bytes,
            "NPU_EMU_ASYNC": int(self.asynchronous),
            "NPU_EMU_DELAY_US": self.delay_us,
            "NPU_EMU_FAULT": ";".join(self.faults),
            "NPU_EMU_TRACE": self.trace,
        }
        return {name: str(value) for name, value in values.items()}


def environment(
    emulation: Emulation, base: Mapping[str, str] = os.environ, verbose: bool = False
) -> dict[str, str]:
    """`base` with what a process needs to run on the emulated host; builds what is missing."""
    built = build(verbose)
    libraries = built / "lib"
    result = dict(base) | emulation.variables()
    _prepend(result, "PYTHONPATH", install_torch_npu(verbose))
    _prepend(result, "LD_LIBRARY_PATH", libraries)
    _prepend(result, "PATH", Path(sys.executable).parent)  # "python" is this one
    _prepend(result, "TORCHREC_ASCEND_LIBRARY_PATH", libraries)
    result.pop("ASCEND_CUSTOM_OPP_PATH", None)
    if emulation.operator_package:
        result["ASCEND_CUSTOM_OPP_PATH"] = str(built / "vendors" / VENDOR)
    return result


def _prepend(variables: dict[str, str], name: str, folder: Path) -> None:
    present = [entry for entry in variables.get(name, "").split(os.pathsep) if entry]
    variables[name] = os.pathsep.join([str(folder), *(e for e in present if e != str(folder))])


def folder() -> Path:
    """Where torch_npu and the built libraries are kept."""
    return Path(os.environ.get("TORCHREC_ASCEND_EMULATOR") or ROOT / "build" / "emulator").resolve()


def install_torch_npu(verbose: bool = False) -> Path:
    """The folder that holds torch_npu, installed there on the first call.

    It stays out of the environment of the CPU packages, where it would break `import torch`.
    PIP_ARGS is passed to pip.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    pin = _pinned("torch_npu")
    target = folder() / f"torch_npu-{pin}-{python}"
    with _locked(target.name):
        if not target.is_dir():
            scratch = target.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
            command += ["--quiet", "--no-deps", "--target", str(scratch)]
            command += [*os.environ.get("PIP_ARGS", "").split(), f"torch_npu=={pin}"]
            _run(command, verbose)
            scratch.rename(target)
    return target


def _pinned(package: str) -> str:
    for line in _source("requirements/npu.txt").read_text().splitlines():
        name, _, pin = line.partition("==")
        if name == package:
            return pin.strip()
    raise RuntimeError(f"requirements/npu.txt does not pin {package}")


def _source(name: str) -> Path:
    path = ROOT / name
    if not path.exists():
        raise RuntimeError(f"{path} is missing: the emulator runs from a checkout of the sources")
    return path


def content() -> str:
    """Digest of everything that decides what is built."""
    digest = hashlib.sha256()
    for name in SOURCES:
        top = _source(name)
        files = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
        for file in files:
            if file.suffix not in (".md", ".pyc"):
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    compiler = os.environ.get("CXX", "c++")
    text = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest.update(f"{text.stdout}{version('torch')}{python}".encode())
    return digest.hexdigest()[:16]


def build(verbose: bool = False) -> Path:
    """A folder, built if need be: lib/ holds the emulated CANN and our library for torch_npu,
    vendors/ the package of our compiled operators."""
    target = folder() / content()
    if (target / "lib").is_dir():
        return target
    torch_npu = install_torch_npu(verbose)
    work = ROOT / "build" / "emulator-objects"
    with _locked("build"):
        if not (target / "lib").is_dir():
            cmake = ["cmake", "-G", "Ninja", "-S", str(_source("kernels/emulator")), "-B"]
            cmake += [str(work), f"-DTORCH_NPU_DIR={torch_npu}"]
            cmake += [f"-DPython_EXECUTABLE={sys.executable}"]
            _run(cmake, verbose)
            _run(["cmake", "--build", str(work)], verbose)
            scratch = target.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            for part in ("lib", "vendors"):
                shutil.copytree(work / part, scratch / part, symlinks=True)
            scratch.rename(target)
    return target


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """One process at a time; the others find the work done."""
    folder().mkdir(parents=True, exist_ok=True)
    with open(folder() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], verbose: bool) -> None:
    env = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    output = None if verbose else subprocess.PIPE
    done = subprocess.run(command, env=env, stdout=output, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout or ''}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchrec_ascend.emulator",
        usage="%(prog)s [options] [-- COMMAND [ARGS ...]]",
        description="Run a command on emulated Ascend NPUs. Nothing emulated says anything about "
        "a card's speed or numerics.",
    )
    defaults = Emulation()
    parser.add_argument("--build", action="store_true", help="build, print the folder, and stop")
    parser.add_argument("--soc", default=defaults.soc, help="a2, a3, a5 or a chip's name")
    parser.add_argument("--devices", type=int, default=defaults.devices)
    parser.add_argument(
        "--async", dest="asynchronous", action="store_true", help="streams run behind the host"
    )
    parser.add_argument("--delay-us", type=int, default=0, help="before each task of a stream")
    parser.add_argument("--hbm-gib", type=float, help="memory of a device (default: the chip's)")
    parser.add_argument(
        "--no-operator-package",
        dest="operator_package",
        action="store_false",
        help="a CANN without our compiled operators",
    )
    parser.add_argument(
        "--fault", dest="faults", action="append", default=[], metavar="NAME=VALUE",
        help="a fault knob, see kernels/emulator/README.md; may be repeated",
    )  # fmt: skip
    parser.add_argument("--trace", default="", help="a file for one line per call; 1: stderr")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if options.build:
        print(build(verbose=True))
        return
    if not command:
        parser.error("no command: end with -- COMMAND")
    try:
        emulation = Emulation(
            soc=options.soc,
            devices=options.devices,
            asynchronous=options.asynchronous,
            delay_us=options.delay_us,
            hbm_bytes=None if options.hbm_gib is None else int(options.hbm_gib * (1 << 30)),
            operator_package=options.operator_package,
            faults=tuple(options.faults),
            trace=options.trace,
        )
        emulation.variables()
    except ValueError as error:
        parser.error(str(error))
    variables = environment(emulation, verbose=True)
    print(f"emulated: {options.devices} x {chip(options.soc).soc}", file=sys.stderr, flush=True)
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:
        parser.error(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
