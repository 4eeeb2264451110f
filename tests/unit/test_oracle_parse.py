"""Reading Mesa's prints. The texts beside were printed by Mesa 25.0.7 for the kernels beside them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from malisdk_pipeline.oracle.cost import Bundles, KernelCost, Loop
from malisdk_pipeline.oracle.parse import Described, parse

PRINTS = Path(__file__).parent / "oracle_prints"
G52 = (
    "SHADER-DB: MESA_SHADER_KERNEL shader: 123 inst, 99 tuples, 15 clauses, 6.000000 cycles, 3.875000 arith, "
    "0.000000 texture, 0.000000 vary, 6.000000 ldst, 84 quadwords, 2 threads, 0 preloads, 1 loops, 0:0 spills:fills\n"
)


def described(name: str, arguments: int = 3) -> Described:
    return Described(name=name, arguments=arguments, work_group=64, required=(8, 4, 1))


def read(name: str) -> KernelCost:
    stdout, stderr = ((PRINTS / f"{name}.{stream}.txt").read_text() for stream in ("stdout", "stderr"))
    costs = parse(stdout, stderr, [described(name)], midgard=True)
    assert costs is not None
    return costs[0]


@pytest.mark.parametrize("name", ["gemm4x4", "nested"])
def test_counted_bundles_and_loops_are_those_of_mesas_own_summary(name: str) -> None:
    cost = read(name)
    assert cost.bundles is not None
    assert cost.bundles.all == cost.statistics["bundles"]
    assert len(cost.loops) == cost.statistics["loops"]


def test_summary_gives_registers_threads_and_spills() -> None:
    cost = read("gemm4x4")
    assert (cost.registers, cost.threads, cost.spills, cost.fills) == (10, 64, 0, 0)
    assert read("nested").threads == 256


def test_loop_holds_the_loads_and_multiply_adds_of_its_source() -> None:
    """The source's loop has 4 vec4 mads, one load of data and four of weights."""
    (loop,) = read("gemm4x4").loops
    assert (loop.bundles.load_store, loop.bundles.vec4_mads, loop.bundles.texture) == (5, 4.0, 0)
    assert read("gemm4x4").core == loop.bundles


def test_nested_loops_have_depths_and_one_is_innermost() -> None:
    outer, inner = read("nested").loops
    assert [(outer.depth, outer.innermost), (inner.depth, inner.innermost)] == [(1, False), (2, True)]
    assert (inner.bundles.load_store, inner.bundles.vec4_mads) == (2, 1.0)
    assert outer.bundles.load_store == 3


def test_two_kernels_of_a_program_keep_their_own_numbers() -> None:
    texts = [
        "".join((PRINTS / f"{name}.{stream}.txt").read_text() + "\n" for name in ("gemm4x4", "nested"))
        for stream in ("stdout", "stderr")
    ]
    costs = parse(*texts, [described("nested", 4), described("gemm4x4")], midgard=True)
    assert costs is not None
    assert [(c.name, c.registers, c.arguments) for c in costs] == [("nested", 4, 4), ("gemm4x4", 10, 3)]


def test_missing_summary_or_listing_is_no_cost() -> None:
    stdout = (PRINTS / "gemm4x4.stdout.txt").read_text()
    stderr = (PRINTS / "gemm4x4.stderr.txt").read_text()
    assert parse(stdout, "", [described("gemm4x4")], midgard=True) is None
    assert parse("", stderr, [described("gemm4x4")], midgard=True) is None
    assert parse(stdout, stderr, [described("other")], midgard=True) is None


def test_operations_that_mesa_cannot_encode_are_warned_of() -> None:
    stdout = (PRINTS / "gemm4x4.stdout.txt").read_text()
    stderr = "Unhandled ALU op ffma\n" + (PRINTS / "gemm4x4.stderr.txt").read_text()
    (cost,) = parse(stdout, stderr, [described("gemm4x4")], midgard=True) or []
    assert cost.warnings == ("Mesa met operations that it cannot encode: the counts are not valid",)


def test_bifrost_summary_keeps_all_its_numbers() -> None:
    (cost,) = parse("", G52, [described("any")], midgard=False) or []
    assert (cost.registers, cost.threads, cost.bundles, cost.loops) == (None, None, None, ())
    assert (cost.statistics["cycles"], cost.statistics["ldst"], cost.statistics["arith"]) == (6.0, 6.0, 3.875)


def test_cost_survives_json() -> None:
    cost = read("nested")
    assert KernelCost.from_json(json.loads(json.dumps(cost.to_json()))) == cost


def test_core_is_the_innermost_loop_with_most_multiply_adds() -> None:
    def loop(mads: float, *, innermost: bool) -> Loop:
        bundles = Bundles(alu=10, load_store=1, texture=0, vec4_mads=mads)
        return Loop(depth=1, innermost=innermost, bundles=bundles)

    cost = read("gemm4x4")
    loops = (loop(9, innermost=False), loop(2, innermost=True), loop(3, innermost=True))
    found = KernelCost.from_json({**cost.to_json(), "loops": [asdict(x) for x in loops]})
    assert found.core is not None
    assert found.core.vec4_mads == 3
