"""Train TorchRec models on Huawei Ascend NPUs with TorchRec's own API.

Importing this package registers the operators ``torch.ops.torchrec_ascend.*`` and the kernels that
``torch.ops.fbgemm.recat_*`` lack. It touches no device, starts no process, edits no environment.
"""

from torchrec_ascend import ops

__version__ = "0.1.0"

__all__ = ["__version__", "ops"]
