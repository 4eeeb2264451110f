"""`oracle report` and `oracle fit`: a new version of the model, and what is refused."""

import dataclasses

import pytest
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.errors import NothingToDo
from malisdk_pipeline.oracle.features import Features
from malisdk_pipeline.oracle.model import Model, load_model
from malisdk_pipeline.oracle.networks import network_names, networks_of
from malisdk_pipeline.oracle.physics import Constants
from malisdk_pipeline.oracle.refit import refit
from malisdk_pipeline.oracle.samples import Sample
from malisdk_pipeline.tuning.autotvm import Record, Workload
from malisdk_pipeline.tuning.measured import layer_of


def sample(number, older=False):
    launch = Features(
        items=4096.0 * (1 + number),
        groups=64.0 * (1 + number),
        group=64,
        threads=128,
        registers=8,
        alu=900 + 31.0 * (number % 7),
        load_store=300,
        mesa_mads=600,
        mads=600,
        part_mads=0,
        operations=10,
        accesses=280,
        lines=20,
        far_lines=4,
        bytes=1e6 * (1 + number % 5),
        spilled=0,
        is_half=0,
        sure=1,
    )
    return Sample(
        name=f"log:{number}",
        operator="dense",
        dtype="float32",
        workload=str(number),
        networks=(network_names()[number % 11],),
        measured_us=100.0 + 300.0 * (1 + number),
        flops=1e6 * (1 + number),
        launches=(launch,),
    )


def test_a_refit_is_the_next_version_with_its_own_figures():
    samples = [sample(i) for i in range(33)]
    made = refit(samples, [False] * 33, fitted_on="a log")
    assert made.model.version == load_model().version + 1
    assert made.model.fitted_on == "a log"
    assert made.model.errors == {"dense float32": made.model.error}
    assert made.model.ranges["group"] == (64, 64)
    assert made.model.constants == made.model.constants.rounded(4)
    assert Model.from_json(made.model.to_json()) == made.model
    assert len(made.held_out_us) == 33


def test_older_records_are_fitted_to_but_not_judged():
    samples = [sample(i) for i in range(33)]
    wrong = dataclasses.replace(sample(3), measured_us=1e6, workload="other")
    made = refit([*samples, wrong], [False] * 33 + [True], fitted_on="logs")
    assert made.model.error < 0.3
    assert made.model.constants != refit(samples, [False] * 33, fitted_on="log").model.constants


@pytest.mark.parametrize("networks", [(), ("vgg_16",)])
def test_records_of_one_network_cannot_be_judged(networks):
    samples = [dataclasses.replace(sample(i), networks=networks) for i in range(3)]
    with pytest.raises(
        NothingToDo, match="a log: nothing to judge a fit on, got 3 records; expected some of two networks"
    ):
        refit(samples, [False] * 3, fitted_on="a log")


def test_rounding_keeps_significant_digits():
    assert Constants(launch=88.07611).rounded(4).launch == 88.08
    assert Constants(refetch=0.0208409).rounded(3).refetch == 0.0208


@pytest.mark.parametrize(
    ("operator", "data", "weight", "network"),
    [
        ("conv2d_nchw_spatial_pack", (1, 992, 7, 7), (128, 992, 1, 1), "densenet_121"),
        ("depthwise_conv2d_nchw", (1, 960, 7, 7), (960, 1, 3, 3), "mobilenet_v2"),
        ("dense", (1, 25088), (4096, 25088), "vgg_16"),
    ],
)
def test_records_are_found_in_their_networks(operator, data, weight, network):
    pad = (1, 1, 1, 1) if weight[-1] == 3 else (0, 0, 0, 0)
    workload = Workload(data=data, weight=weight, dtype="float32", pad=pad)
    record = Record(line=1, operator=operator, workload=workload, knobs={}, time_s=1.0)
    assert networks_of(layer_of(record)) == (network,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report"], "oracle report: no file; expected an AutoTVM log"),
        (["fit", "x.log"], "--out: got nothing; expected a file with `oracle fit`"),
        (["report", "x.log", "--out", "y.json"], "--out: got y.json; expected a file with `oracle fit`"),
        (["report", "x.log"], "x.log: no such file"),
    ],
)
def test_wrong_words_get_one_clear_message(words, message, capsys):
    assert main(["oracle", *words]) == 2
    assert message in capsys.readouterr().err
