"""Figures of merit against values computed by hand, and the networks that a log's layers come from."""

import math

import numpy as np
import pytest
from malisdk_pipeline.oracle.metrics import median_error, ranked_pairs, spearman
from malisdk_pipeline.oracle.networks import Layer, network_names, networks_of


def test_median_error_counts_both_directions():
    assert median_error([110, 80, 100], [100, 100, 100]) == pytest.approx(0.1)


def test_spearman_sees_order_only():
    assert spearman([1, 2, 3, 4], [10, 20, 30, 4000]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)


def test_spearman_gives_equal_values_their_mean_rank():
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_spearman_of_constant_values_is_not_a_number():
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_spearman_of_random_values_is_near_zero():
    random = np.random.default_rng(1)
    assert abs(spearman(random.random(2000), random.random(2000))) < 0.1


def test_ranked_pairs_leave_out_what_is_close():
    # 1.00 and 1.04 are too close to rank; of the pairs with 2.0 one is predicted the wrong way round
    assert ranked_pairs([5.0, 1.0, 2.0], [1.00, 1.04, 2.0]) == (1, 2)


def test_ranked_pairs_count_a_tie_as_wrong():
    assert ranked_pairs([1.0, 1.0], [1.0, 2.0]) == (0, 1)


def conv(size, channels, kernel=1, stride=1, pad=0):
    return Layer(
        kind="conv2d",
        size=(size, size),
        channels=channels,
        kernel=(kernel, kernel),
        stride=stride,
        pad=(pad, pad),
    )


@pytest.mark.parametrize(
    ("layer", "networks"),
    [
        (conv(224, (3, 64), 7, 2, 3), ("densenet_121", "resnet_18", "resnet_50")),
        (conv(56, (64, 64), 3, 1, 1), ("resnet_18", "resnet_50")),
        (conv(7, (992, 128)), ("densenet_121",)),
        (conv(512, (3, 64), 7, 2, 3), ("ssd_512_resnet_50",)),
        (conv(299, (3, 32), 3, 2, 0), ("inception_v3",)),
        (conv(13, (512, 1000)), ("squeezenet_1_0", "squeezenet_1_1")),
        (conv(57, (64, 64), 3, 1, 1), ()),
    ],
)
def test_layers_are_found_in_their_networks(layer, networks):
    assert networks_of(layer) == networks


def test_all_networks_have_names():
    assert len(network_names()) == 11
