"""Put first on PYTHONPATH: TorchRec's test helpers then find our sharder under its sharder's name.

Every process of a suite reads this at its start, spawned ones too. The swap happens just before the
helper module that defines test sharders is imported. The suites import each other as a package that
the wheel does not ship: it is found in the checkout.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any

HELPER = "torchrec.distributed.test_utils.test_sharding"
SUITES = "torchrec.distributed.tests"


class _Peer(importlib.abc.MetaPathFinder):
    done = os.environ.get("TORCHREC_ASCEND_SWAP") != "1"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == SUITES:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [os.environ["TORCHREC_ASCEND_PEER"]]
            return spec
        if name == HELPER and not _Peer.done:
            _Peer.done = True
            from torchrec.distributed import embeddingbag

            from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder

            embeddingbag.EmbeddingBagCollectionSharder = AscendEmbeddingBagCollectionSharder
        return None


if "TORCHREC_ASCEND_PEER" in os.environ:
    sys.meta_path.insert(0, _Peer())
