"""TorchRec's training pipelines on NPU streams.

TorchRec makes side streams for cuda and mtia only: on another device its pipelines run everything
on one stream, and nothing overlaps. These subclasses give them an NPU's streams; on other devices
they are upstream's. What they overlap is upstream's choice: the copy of batch i+2 and the input
dist of batch i+1 run beside the training of batch i.

Not here: TorchRec's StagedTrainPipeline and memory stashing are written for torch.cuda.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchrec.distributed.train_pipeline.train_pipelines import (
    EvalPipelineSparseDist,
    PrefetchTrainPipelineSparseDist,
    TrainPipelineBase,
    TrainPipelineSparseDist,
)

# Devices for which TorchRec makes the streams itself, or that have none.
_UPSTREAMS = ("cuda", "mtia", "cpu", "meta")


def _stream(device: torch.device, priority: int = 0) -> Any:
    return torch.get_device_module(device).Stream(device=device, priority=priority)


class _NpuStreams:
    """Mixed in before one of TorchRec's pipelines.

    Args:
        model, optimizer, device, options: as upstream.
    """

    # The pipeline's streams, and their priorities as upstream's on cuda.
    _streams: tuple[tuple[str, int], ...] = (("_memcpy_stream", -1), ("_data_dist_stream", -1))

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device,
        *options: Any, **named_options: Any,
    ) -> None:  # fmt: skip
        super().__init__(model, optimizer, device, *options, **named_options)  # type: ignore[call-arg]
        if device.type in _UPSTREAMS:
            return
        self._stream_context = torch.get_device_module(device).stream
        for name, priority in self._streams:
            setattr(self, name, _stream(device, priority))


class AscendTrainPipelineBase(_NpuStreams, TrainPipelineBase[Any, Any]):
    """The copy of the next batch overlaps the training of this one."""

    _streams = (("_memcpy_stream", 0),)


class AscendTrainPipelineSparseDist(_NpuStreams, TrainPipelineSparseDist[Any, Any]):
    """Copy, input dist and training of three batches overlap."""


class AscendPrefetchTrainPipelineSparseDist(_NpuStreams, PrefetchTrainPipelineSparseDist[Any, Any]):
    """As :class:`AscendTrainPipelineSparseDist`, with a stage that prefetches into caches. Our
    lookup has no cache, so there that stage does nothing."""

    _streams = (
        ("_memcpy_stream", -1),
        ("_data_dist_stream", -1),
        ("_prefetch_stream", 0),
        ("_default_stream", 0),
    )


class AscendEvalPipelineSparseDist(_NpuStreams, EvalPipelineSparseDist[Any, Any]):
    """As :class:`AscendTrainPipelineSparseDist`, forward only."""
