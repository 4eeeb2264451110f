"""--shape options: what they may look like, and how they meet the model's own shapes."""

import pytest
from malisdk_pipeline.errors import ConfigError
from malisdk_pipeline.shapes import parse_shape, parse_shapes, resolve_shapes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data:1,3,224,224", ("data", (1, 3, 224, 224))),
        ("serving_default_input:0:1,8", ("serving_default_input:0", (1, 8))),
        ("gpu_0/data_0:7", ("gpu_0/data_0", (7,))),
        ("x: 1, 2", ("x", (1, 2))),
    ],
)
def test_parse_shape_splits_at_the_last_colon(text, expected):
    assert parse_shape(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,3,224,224", "no input name"),
        (":1,3", "no input name"),
        ("", "no input name"),
        ("data:", "extents of data, got ''"),
        ("data:1,,3", "extents of data"),
        ("data:1,-3", "extents of data, got '1,-3'"),
        ("data:0,3", "extents of data"),
        ("data:1x3", "extents of data, got '1x3'"),
        ("data:1.0", "extents of data"),
        ("data:²", "extents of data"),
        ("data:99999999999", "extents of data"),
    ],
)
def test_parse_shape_malformed_is_a_config_error(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_shape(text)
    assert caught.value.exit_code == 2


def test_parse_shapes_same_input_twice_must_agree():
    assert parse_shapes(["a:1,2", "b:3", "a:1,2"]) == {"a": (1, 2), "b": (3,)}
    with pytest.raises(ConfigError, match="shape of a given twice"):
        parse_shapes(["a:1,2", "a:1,3"])


def test_resolve_shapes_takes_static_and_given():
    declared = {"image": ["N", 3, None, 0], "scale": [], "ids": [1, 4], "free": None}
    given = {"image": (2, 3, 8, 9), "free": (5, 6)}
    expected = {"image": (2, 3, 8, 9), "scale": (), "ids": (1, 4), "free": (5, 6)}
    assert resolve_shapes("m.onnx", declared, given) == expected


def test_resolve_shapes_names_every_open_input_and_how_to_give_it():
    with pytest.raises(ConfigError) as caught:
        resolve_shapes("m.onnx", {"a b": ["N", 3], "c": [1], "d": None}, {})
    message, hint = str(caught.value).split("\nhint: ")
    assert "m.onnx" in message
    assert "a b [N,3]" in message
    assert "d [any rank]" in message
    assert "c [1]" not in message
    assert "--shape 'a b:1,3'" in hint
    assert "--shape d:1,3,224,224" in hint


@pytest.mark.parametrize("shape", [(1, 4, 8), (1, 3), (1, 3, 8, 8)])
def test_resolve_shapes_contradiction_is_refused(shape):
    with pytest.raises(ConfigError, match="contradicts the model, got image"):
        resolve_shapes("m.onnx", {"image": ["N", 3, 8]}, {"image": shape})


def test_resolve_shapes_unknown_input_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"no such input, got --shape imge.*\nhint: did you mean image\?"):
        resolve_shapes("m.onnx", {"image": [1]}, {"imge": (1,)})
