"""Command line of the DLRM trainer; see ``--help``."""

from __future__ import annotations

import sys

from torchrec_ascend.dlrm.config import ConfigError, load
from torchrec_ascend.dlrm.trainer import run


def main(argv: list[str] | None = None) -> int:
    """Runs the trainer. 0: done; 1: the test AUROC is below --target_auroc; 2: bad arguments."""
    try:
        config = load(argv)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return run(config)


if __name__ == "__main__":
    sys.exit(main())
