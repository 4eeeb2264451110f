"""The recipes themselves, and how they are found."""

import json
import re

import pytest
from malisdk_pipeline import recipes
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.errors import ConfigError

NAMES = recipes.names()


@pytest.mark.parametrize("name", NAMES)
def test_recipe_pins_everything_it_downloads(name):
    recipe = recipes.load(name)
    for source in recipe.sources:
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
        assert re.fullmatch(r"[0-9a-f]{64}", source.archive_sha256)
        assert re.fullmatch(r"[0-9][0-9.]*", source.version)
        assert source.licence
        assert (source.python is None) == (source.platform is None)


@pytest.mark.parametrize("name", ["efficientnet_lite0", "squeezenet1_1"])
def test_trained_recipe_has_labels_preprocessing_and_two_photographs(name):
    recipe = recipes.load(name)
    assert recipe.labels is not None
    assert recipe.preprocess is not None
    assert recipe.preprocess.channels in ("RGB", "BGR")
    assert [image.name for image in recipe.images] == ["coffee", "chelsea"]
    assert recipe.images[0].expected == ("espresso",)
    assert len(recipe.images[1].expected) == 5


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("efficientnet-lite0", "efficientnet_lite0"), ("squeezenet", "squeezenet1_1"), ("SqueezeNet1.1", "squeezenet1_1")],
)
def test_load_unknown_name_suggests_the_nearest(wrong, near, capsys, tmp_path):
    assert main(["models", "build", wrong, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"model: unknown name, got {wrong}" in error
    assert f"did you mean {near}?" in error
    assert not (tmp_path / "out").exists()


def test_load_unlike_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"expected one of efficientnet_lite0, .*squeezenet1_1.*\nhint: models list"):
        recipes.load("zzzz")


def test_models_list_prints_every_recipe(capsys):
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert [line for line in lines if line.endswith("(default)")] == [lines[NAMES.index(recipes.DEFAULT)]]


def test_models_list_json_says_the_same(capsys):
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [m["name"] for m in listed] == NAMES
    assert [m["name"] for m in listed if m["default"]] == [recipes.DEFAULT]
    assert all(len(m["input"]["shape"]) == 4 for m in listed)


def test_models_dir_without_recipes_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "__file__", str(tmp_path / "site-packages" / "malisdk_pipeline" / "recipes.py"))
    with pytest.raises(ConfigError, match=r"no model recipes here.*\nhint: run from a checkout"):
        recipes.load(recipes.DEFAULT)


@pytest.mark.parametrize("text", ["RECIPE = 3", "x = (", "import no_such_module", ""])
def test_load_broken_recipe_is_named(monkeypatch, tmp_path, text):
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.setattr(recipes, "models_dir", lambda: tmp_path)
    with pytest.raises(ConfigError, match=r"broken\.py: "):
        recipes.load("broken")
