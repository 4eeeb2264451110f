"""Versions of the packages behind a build step, as installed and as pyproject.toml asks for them."""

import functools
import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

# Import name -> distribution, where they differ.
_DISTRIBUTIONS = {
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
    "elftools": "pyelftools",
    "PIL": "pillow",
    "google": "protobuf",
}


class Versions:
    """Asked once per package and build."""

    def __init__(self, pyproject: Path) -> None:
        project = tomllib.loads(pyproject.read_text())["project"]
        wanted = [re.match(r"\s*([A-Za-z0-9._-]+)\s*(.*)", line) for line in project["dependencies"]]
        self._required = {m[1].lower(): m[2].replace(" ", "") for m in wanted if m}

    @functools.cache  # noqa: B019  (one object a build)
    def installed(self, distribution: str) -> str:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            return "none"

    def signature(self, imported: Iterable[str]) -> str:
        """One string that changes with the version of any of these packages, given by import name."""
        names = sorted({_DISTRIBUTIONS.get(name, name) for name in imported})
        facts = {name: [self._required.get(name, ""), self.installed(name)] for name in names}
        return json.dumps({"python": list(sys.version_info[:2]), "packages": facts}, sort_keys=True)
