"""The cost model without a compiler: its physics, its fit to made-up boards, and what it says of a kernel."""

import dataclasses
import math

import numpy as np
import pytest
from malisdk_pipeline.errors import ScheduleError
from malisdk_pipeline.oracle.cost import Bundles, KernelCost, Loop
from malisdk_pipeline.oracle.features import Features, Launched, columns, features_of
from malisdk_pipeline.oracle.fit import fit_constants, held_out, predictor
from malisdk_pipeline.oracle.judge import judge, verdicts_text
from malisdk_pipeline.oracle.model import Model, load_model, predict, predict_each, ranges_of
from malisdk_pipeline.oracle.networks import network_names
from malisdk_pipeline.oracle.optimise import least_squares, soften
from malisdk_pipeline.oracle.physics import NAMES, Constants, parts
from malisdk_pipeline.oracle.samples import Sample, table_of

BUSY = Features(
    items=100_000,
    groups=1563,
    group=64,
    threads=64,
    registers=14,
    alu=900,
    load_store=200,
    mesa_mads=600,
    mads=600,
    part_mads=0,
    operations=10,
    accesses=180,
    lines=20,
    far_lines=4,
    bytes=4_000_000,
    spilled=0,
    is_half=0,
    sure=1,
)


def time_of(constants=None, **changes):
    table = columns([dataclasses.replace(BUSY, **changes)])
    return float(parts(constants or Constants(), table).total[0])


@pytest.mark.parametrize("name", ["alu", "load_store", "mads", "part_mads", "operations", "lines", "bytes"])
def test_more_work_takes_longer(name):
    assert time_of(**{name: 3 * getattr(BUSY, name) + 500}) > time_of()


def test_fewer_threads_a_core_hide_less_latency():
    assert time_of(threads=64) > time_of(threads=256)


def test_spills_cost_more_than_other_accesses():
    assert time_of(load_store=1200, spilled=100) > time_of(load_store=1200, spilled=0)


def test_a_lonely_group_leaves_three_cores_idle():
    one = time_of(items=4 * 64, groups=4) - Constants().launch
    lonely = time_of(items=64, groups=1) - Constants().launch
    assert lonely == pytest.approx(one, rel=0.35)


def test_an_empty_launch_costs_a_launch():
    nothing = dict.fromkeys(("alu", "load_store", "mesa_mads", "mads", "operations", "accesses", "lines"), 0)
    assert time_of(**nothing, far_lines=0, bytes=0) == pytest.approx(Constants().launch)


def random_samples(constants, count, seed=1):
    """Made-up records whose times are those of `constants`, with 3 % noise, dealt out to all networks."""
    random = np.random.default_rng(seed)

    def some(low, high):
        return float(np.exp(random.uniform(math.log(low), math.log(high))))

    samples = []
    for i in range(count):
        mads, group = some(50, 3000), float(random.choice([1, 4, 16, 64]))
        launch = Features(
            items=group * (groups := math.ceil(some(4, 5000))),
            groups=groups,
            group=group,
            threads=max(group, float(random.choice([64, 128, 256]))),
            registers=8,
            alu=mads * some(1.2, 4),
            load_store=mads * some(0.3, 2),
            mesa_mads=mads,
            mads=mads,
            part_mads=0,
            operations=some(1, 400),
            accesses=mads * 0.3,
            lines=some(1, 300),
            far_lines=some(1, 30),
            bytes=some(1e4, 3e7),
            spilled=float(random.choice([0, 0, 100])),
            is_half=0,
            sure=1,
        )
        time_us = float(parts(constants, columns([launch])).total[0]) * math.exp(random.normal(0, 0.03))
        samples.append(
            Sample(
                name=f"log:{i}",
                operator="conv2d",
                dtype="float32",
                workload=str(i // 2),
                networks=(network_names()[i // 2 % len(network_names())],),
                measured_us=time_us,
                flops=2e3 * mads * launch.items,
                launches=(launch,),
            )
        )
    return samples


BOARD = Constants(mad=1.5, other_alu=0.3, load_store=0.4, line=0.5, memory=1.4, launch=70.0, load_latency=25.0)


def test_a_fit_finds_the_board_that_made_the_times():
    samples = random_samples(BOARD, 400)
    fitted = fit_constants(samples)
    table = table_of(random_samples(BOARD, 200, seed=2))
    predicted = table.per_sample(parts(fitted, table.columns).total)
    assert np.median(np.abs(predicted / table.measured_us - 1)) < 0.05
    assert fitted.launch == pytest.approx(BOARD.launch, rel=0.2)
    assert fitted.mad == pytest.approx(BOARD.mad, rel=0.25)


def test_held_out_predictions_never_saw_the_workload():
    samples = random_samples(BOARD, 66)
    seen: list[tuple[set[str], set[str]]] = []

    def spy(train):
        def predict(test):
            seen.append(({s.workload for s in train}, {s.workload for s in test}))
            return predictor(train)(test)

        return predict

    predicted = held_out(samples, spy)
    assert len(seen) == len(network_names())
    assert all(train and test and not train & test for train, test in seen)
    assert all(p > 0 for p in predicted)


def test_a_sample_without_a_network_is_neither_trained_on_nor_judged():
    samples = random_samples(BOARD, 44)
    odd = dataclasses.replace(samples[0], networks=(), measured_us=1e9)
    predicted = held_out([*samples, odd])
    assert math.isnan(predicted[-1])
    assert predicted[:-1] == held_out(samples)
    assert judge([odd], [math.nan], [False]) == []


def test_judge_ranks_configurations_of_a_workload_with_older_ones():
    samples = random_samples(BOARD, 4)  # two workloads of two configurations each
    measured = [s.measured_us for s in samples]
    (verdict,) = judge(samples, measured, [False, True, False, True])
    assert (verdict.records, verdict.error) == (2, 0.0)
    assert verdict.right == verdict.pairs <= 1
    assert verdict.same_right == verdict.same_pairs <= 2
    assert "0.0 %" in verdicts_text([verdict])


def test_outliers_pull_with_constant_force():
    soft = soften(np.array([0.1, -3.0]), 0.25)
    assert soft[0] == 0.1
    assert soft[1] ** 2 == pytest.approx(2 * 0.25 * 3.0 - 0.25**2)
    assert soft[1] < 0


def test_least_squares_finds_a_minimum():
    x = np.linspace(0, 3, 50)
    found = least_squares(lambda p: p[0] * np.exp(-p[1] * x) - 2.0 * np.exp(-0.7 * x), np.array([1.0, 1.0]))
    assert found == pytest.approx([2.0, 0.7], abs=1e-3)


GEMM = """__kernel void gemm(const __global float4* restrict a, const __global float4* restrict b, __global float4* c) {
  const int x = get_group_id(0) * 64 + get_local_id(0);
  float4 sum;
  sum = (float4)(0.0f);
  for (int k = 0; k < 256; ++k) { sum = mad((float4)(a[k].s0), b[k * 4096 + x], sum); }
  c[x] = sum;
}"""


def gemm(name="gemm", size=4096):
    inner = Bundles(alu=3, load_store=2, texture=0, vec4_mads=1)
    cost = KernelCost(
        name=name,
        registers=6,
        threads=128,
        spills=0,
        fills=0,
        bundles=Bundles(alu=12, load_store=4, texture=0, vec4_mads=1),
        loops=(Loop(depth=1, innermost=True, bundles=inner),),
        statistics={},
        arguments=3,
        work_group=128,
        required=(0, 0, 0),
        warnings=(),
    )
    return Launched(
        cost=cost,
        source=GEMM,
        global_size=(size, 1, 1),
        local_size=(64, 1, 1),
        bytes_read=256 * 16 * (size + 1),
        bytes_written=16 * size,
        dtype="float32",
    )


def test_features_of_a_kernel_are_those_counted_by_hand():
    f = features_of(gemm())
    assert (f.items, f.groups, f.group, f.threads) == (4096, 64, 64, 128)
    assert (f.mads, f.part_mads, f.operations, f.mesa_mads) == (256, 0, 0, 256)
    assert (f.alu, f.load_store) == (9 + 256 * 3, 2 + 256 * 2)
    assert f.accesses == 2 * 256 + 1
    # 64 neighbours read 1024 bytes of b a round: 16 lines; a's 256 vectors are 64 lines in all; 16 of c
    assert f.lines == pytest.approx((256 * 16 + 64 + 16) / 64, rel=0.1)
    assert f.sure == 1


def test_predictions_are_labelled_and_add_up():
    one, two = predict([gemm()]), predict([gemm(), gemm()])
    assert two.time_us == pytest.approx(2 * one.time_us)
    assert one.model == load_model().label
    assert "predicted (T860 model v" in str(one)
    assert one.time_us >= max(one.compute_us, one.memory_us)
    assert one.limit in ("arithmetic", "load/store", "latency", "memory", "launch")
    assert predict([]).time_us == 0
    assert [p.time_us for p in predict_each([gemm()])] == [one.time_us]


def test_a_kernel_unlike_the_logs_is_extrapolated():
    assert predict([gemm(size=64 * 1_000_000)]).extrapolated
    assert "extrapolated" in str(predict([gemm(size=64 * 1_000_000)]))


def test_a_gpu_without_bundles_is_refused():
    bifrost = dataclasses.replace(gemm(), cost=dataclasses.replace(gemm().cost, bundles=None))
    with pytest.raises(ScheduleError, match="gemm: no counts of bundles"):
        predict([bifrost])


def test_the_frozen_model_is_complete_and_plausible():
    model = load_model()
    assert Model.from_json(model.to_json()) == model
    assert all(getattr(model.constants, name) > 0 for name in NAMES)
    assert 0 < model.error < 0.2
    # clpeak's 7.33 GB/s are a bound, and 78 us is what a launch takes that is waited for alone
    assert model.constants.memory >= 1.0
    assert 5 < model.constants.launch < 150
    assert set(model.ranges) == set(ranges_of([BUSY]))
