"""The layout operators: recat (gradient to send buffer) and unrecat (receive buffer to output).

- ``torch.ops.torchrec_ascend.recat(grad, dims, *, scale=1.0, dtype=None)`` and ``recat.out``
- ``torch.ops.torchrec_ascend.unrecat(flat, dims, batch_size, *, dtype=None)`` and ``unrecat.out``
- ``torch.ops.fbgemm.recat_embedding_grad_output``, ``..._mixed_D``, ``..._mixed_D_batch``

The layout is drawn in :mod:`torchrec_ascend.splits`; shapes, dtypes and errors are in
``kernels/layout_transform_ops/README.md``. Schemas and CPU kernels are C++; the Meta kernels and
autograd formulas are in :mod:`torchrec_ascend.ops.layout`.
"""

from torchrec_ascend.ops import library

library.load()

from torchrec_ascend.ops import layout  # noqa: E402

layout.register()

__all__ = ["layout", "library"]
