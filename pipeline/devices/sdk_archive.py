"""What the smoke test must know of an SDK archive before it goes to a device."""

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import BundleError

# e_machine of an ELF file -> what `uname -m` says on machines that run it.
_MACHINES = {183: "aarch64", 62: "x86_64"}
_ELF_HEAD_BYTES = 20


@dataclass(frozen=True, kw_only=True)
class SmokeCase:
    """`limits` has the allowed relative error of every output; `top1` is (index, label) of the expected class."""

    name: str
    limits: Mapping[str, float]
    top1: tuple[int, str] | None


@dataclass(frozen=True, kw_only=True)
class SdkArchive:
    """`folder` is the one top folder, to which `model` and the wheels' paths (by Python tag) are relative."""

    path: Path
    folder: str
    machine: str
    model: str
    wheels: Mapping[str, str]
    cases: tuple[SmokeCase, ...]


def read_sdk_archive(path: Path) -> SdkArchive:
    """Raises BundleError: no such file, no gzipped tar, cut off, or without what an SDK has."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            return _read(path, tar)
    except FileNotFoundError as e:
        raise BundleError(
            f"{path}: no such file; expected an SDK archive", hint="scons sdk makes one below build/"
        ) from e
    except (OSError, EOFError, tarfile.TarError) as e:
        raise BundleError(f"{path}: not a whole .tar.gz file ({e})", hint="scons sdk makes one below build/") from e


def _read(path: Path, tar: tarfile.TarFile) -> SdkArchive:
    machine = None
    cases: list[SmokeCase] = []
    inside: list[str] = []
    tops = set()
    for member in tar:
        parts = PurePosixPath(member.name).parts
        tops.add(parts[0])
        name = "/".join(parts[1:])
        inside.append(name)
        content = tar.extractfile(member)
        if content is not None and name == "bin/malisdk":
            machine = _machine(path, content)
        elif content is not None and re.fullmatch(r"smoke/cases/[^/]+/case\.json", name):
            cases.append(_case(path, parts[-2], content))
    if len(tops) != 1:
        raise BundleError(f"{path}: {len(tops)} top folders, got {', '.join(sorted(tops)) or 'none'}; expected one")
    models = [n for n in inside if re.fullmatch(r"models/[^/]+\.mali", n)]
    if machine is None:
        raise BundleError(f"{path}: no bin/malisdk in it; expected an SDK archive")
    if len(models) != 1:
        raise BundleError(f"{path}: {len(models)} compiled models in models/; expected one .mali file")
    if not cases:
        raise BundleError(f"{path}: no smoke cases; expected smoke/cases/<case>/case.json")
    wheels = {m[1]: n for n in inside if (m := re.fullmatch(r"python/[^/]+-(cp\d+)-cp\d+-[^/-]+\.whl", n))}
    return SdkArchive(
        path=path,
        folder=tops.pop(),
        machine=machine,
        model=models[0],
        wheels=wheels,
        cases=tuple(sorted(cases, key=lambda c: c.name)),
    )


def _machine(path: Path, content: IO[bytes]) -> str:
    head = content.read(_ELF_HEAD_BYTES)
    number = int.from_bytes(head[18:20], "little")
    if head[:4] != b"\x7fELF" or number not in _MACHINES:
        raise BundleError(f"{path}: bin/malisdk is no program, got ELF machine {number}; expected aarch64 or x86_64")
    return _MACHINES[number]


def _case(path: Path, name: str, content: IO[bytes]) -> SmokeCase:
    try:
        facts: dict[str, Any] = json.load(content)
        rtol, top1 = float(facts["rtol"]), facts.get("top1")
        return SmokeCase(
            name=name,
            limits={str(output): rtol for output in facts["outputs"]},
            top1=None if top1 is None else (int(top1["index"]), str(top1["label"])),
        )
    except (ValueError, KeyError, TypeError) as e:
        raise BundleError(f"{path}: smoke/cases/{name}/case.json is not readable ({e})") from e
