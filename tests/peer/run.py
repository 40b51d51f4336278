"""TorchRec's own gloo suites, with its sharder and with ours in its place.

    python tests/peer/run.py CHECKOUT [-k EXPRESSION]

CHECKOUT is TorchRec's source, of about the version that is installed: only its tests are taken from
it. Prints both outcomes; the exit status is 1 if a test fails with ours and not with TorchRec's.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITES = ("test_model_parallel_gloo.py", "test_dist_data.py")
HERE = Path(__file__).resolve().parent


def outcomes(tests: Path, source: Path, swapped: bool, expression: str) -> dict[str, str]:
    """Outcome by test, from a pytest of its own."""
    env = dict(os.environ, OMP_NUM_THREADS="1", TORCHREC_ASCEND_SWAP="1" if swapped else "0")
    env["TORCHREC_ASCEND_PEER"] = str(source)
    folders = [str(HERE / "swap"), str(HERE.parents[1]), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tests)]
    command += ["-q", "-rA", "-p", "no:cacheprovider", "--tb=no", str(tests)]
    command += ["-k", expression] if expression else []
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tests)
    found = re.findall(r"^(PASSED|FAILED|SKIPPED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if not found:
        raise RuntimeError(f"pytest ran nothing:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {name: outcome for outcome, name in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("-k", dest="expression", default="Gloo or PooledEmbeddingsAllToAll")
    options = parser.parse_args()
    source = options.checkout.resolve() / "torchrec" / "distributed" / "tests"
    with tempfile.TemporaryDirectory() as folder:
        for name in SUITES:
            shutil.copy(source / name, folder)
        plain = outcomes(Path(folder), source, False, options.expression)
        ours = outcomes(Path(folder), source, True, options.expression)
    for name in sorted({*plain, *ours}):
        print(f"{plain.get(name, '-'):8} {ours.get(name, '-'):8} {name}")
    new = [n for n, o in ours.items() if o in ("FAILED", "ERROR") and plain.get(n) == "PASSED"]
    passed = [sum(o == "PASSED" for o in found.values()) for found in (plain, ours)]
    print(f"passed: {passed[0]} with TorchRec's, {passed[1]} with ours; new failures: {len(new)}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
