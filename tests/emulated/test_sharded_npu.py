"""The law on emulated NPUs: sharded equals unsharded, for every sharding type. No CPU fallback."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from models import Case, compare
from ranks import World
from sequence_models import TABLES, compare_sequence
from test_ids import outcome
from test_sharded_equals_unsharded import PLANS, VARIANTS

# ranks, ranks of a host, SoC, asynchronous
HOSTS = [(2, 2, "a2", False), (4, 2, "a3", False), (2, 2, "a5", True), (1, 1, "a2", True)]
# Those without a counterpart among the others' code paths run on the first host only.
EVERYWHERE = ("sum", "mean-unequal", "weighted", "one-rank-empty")


def runs() -> list[object]:
    return [
        pytest.param(host, plan, variant, id="-".join(map(str, (*host, plan, variant))))
        for host in HOSTS
        for plan in PLANS
        for variant in VARIANTS
        if host == HOSTS[0] or variant in EVERYWHERE
        if not (host[0] == 1 and "cw" in PLANS[plan])  # needs two ranks
    ]


@pytest.mark.parametrize("host, plan, variant", runs())
def test_sharded_equals_unsharded(
    npu_world: Callable[..., World], host: tuple[int, int, str, bool], plan: str, variant: str
) -> None:
    size, local_size, soc, asynchronous = host
    world = npu_world(size, soc=soc, asynchronous=asynchronous, local_size=local_size)
    tolerance = 1e-6 if "mean" in variant else 0.0
    case = Case(PLANS[plan], **VARIANTS[variant])
    for rank, (outputs, weights) in enumerate(world.run(compare, case, "ours", "npu")):
        assert outputs <= tolerance, f"rank {rank}: outputs differ by {outputs}"
        assert weights <= tolerance, f"rank {rank}: weights differ by {weights}"


@pytest.mark.parametrize("plan", [("tw",), ("rw",), ("tw", "rw", "cw", "dp")], ids="+".join)
def test_a_bad_id_stops_all_ranks(npu_world: Callable[..., World], plan: tuple[str, ...]) -> None:
    """Before a card reads or writes beyond its table."""
    answers = npu_world(2).run(outcome, plan, "f0", 17, 1, "npu")
    assert answers[1][0] == "ValueError"
    assert "feature 'f0' has id 17 in bag 1, table 't0' has rows 0 to 16" in answers[1][1]
    assert "rank 1 has ids that are not in their tables" in answers[0][1]


@pytest.mark.parametrize("batch_sizes", [(), (0, 3)], ids=["equal", "one-rank-empty"])
@pytest.mark.parametrize("plan", [("tw",), ("cw",), ("rw",), ("dp",)], ids="+".join)
def test_sequences_equal_unsharded(
    npu_world: Callable[..., World], plan: tuple[str, ...], batch_sizes: tuple[int, ...]
) -> None:
    case = Case(plan, TABLES, batch_sizes=batch_sizes)
    assert npu_world(2).run(compare_sequence, case, "npu") == [(0.0, 0.0)] * 2
