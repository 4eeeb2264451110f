"""MANIFEST.json: what a bundle holds and what it was made with."""

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from .. import __version__
from ..errors import BundleError
from .archive import Entry

FILE_NAME = "MANIFEST.json"
FORMAT = 1
_MADE_WITH = ("apache-tvm", "ziglang")


def versions(header: Path) -> dict[str, str | int]:
    """The SDK's version, the ABI version that its C header states, and the versions of the tools."""
    found = re.search(r"^#define\s+MALISDK_ABI_VERSION\s+(\d+)", header.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BundleError(f"{header}: no ABI version; expected #define MALISDK_ABI_VERSION")
    tools = {name: _installed(name) for name in _MADE_WITH}
    return {"malisdk": __version__, "malisdk_abi": int(found[1]), **tools}


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError as e:
        raise BundleError(f"{distribution}: package not installed; expected the one this bundle was made with") from e


def manifest_text(
    *,
    name: str,
    target: str,
    model: Mapping[str, object],
    versions: Mapping[str, str | int],
    entries: Mapping[str, Entry],
) -> str:
    """The manifest of these entries; itself it is not listed. Links are listed with what they point to."""
    listed: dict[str, dict[str, object]] = {}
    for path, entry in sorted(entries.items()):
        if entry.link is not None:
            listed[path] = {"link": entry.link}
        else:
            listed[path] = {"bytes": len(entry.data), "sha256": hashlib.sha256(entry.data).hexdigest()}
    facts = {
        "format": FORMAT,
        "name": name,
        "target": target,
        "model": dict(model),
        "versions": dict(versions),
        "files": listed,
    }
    return json.dumps(facts, indent=2) + "\n"
