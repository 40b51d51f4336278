"""Versions of TorchRec: which are tested, and where they differ.

Between 1.8 and 1.9 nothing that this package overrides differs, so there is no branch here. A
difference, when one comes, has its only home in this module.
"""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version

TESTED = ("1.8", "1.9")

_warned = False


def warn_if_untested() -> None:
    """Warns, once a process, if the installed TorchRec is none of `TESTED`."""
    global _warned
    if _warned:
        return
    _warned = True
    try:
        found = version("torchrec")
    except PackageNotFoundError:  # a checkout on the path
        return
    if found.split("+")[0].rsplit(".", 1)[0] not in TESTED:
        warnings.warn(
            f"torchrec {found} is installed; torchrec_ascend is tested with "
            f"{' and '.join(TESTED)}. It overrides parts that may have changed",
            stacklevel=3,
        )
