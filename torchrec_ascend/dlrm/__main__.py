"""Command line of the DLRM trainer; see ``--help``."""

from __future__ import annotations

import logging
import sys
import warnings

from torchrec_ascend.dlrm.config import ConfigError, load
from torchrec_ascend.dlrm.trainer import run


def main(argv: list[str] | None = None) -> int:
    """Runs the trainer. 0: done; 1: the test AUROC is below --target_auroc; 2: bad arguments."""
    try:
        config = load(argv)
        # What the libraries say of each other's deprecated calls, once a rank and call, would bury
        # the progress bar and what is meant for the user.
        warnings.simplefilter("ignore", FutureWarning)
        for name in ("torchrec", "torch.fx"):
            logging.getLogger(name).setLevel(logging.ERROR)
        return run(config)
    except (ConfigError, FileNotFoundError) as error:  # also of run: it reads the data
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
