"""The SDK as a person unpacks it: gathers, checks and packs everything that one model needs on a board."""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import __version__, container
from ..errors import BundleError
from ..plan import Plan
from . import manifest
from .archive import Entry, write_archive
from .elf import LIBRARY_LIMIT_BYTES, check_elf

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_LINK_NAME = "libmalisdk.so"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The files that go into one SDK. `recipe` and `cases` are folders; licences are named as in the SDK."""

    target: str
    machine: str  # as elftools calls it: AArch64, x64
    model: str
    mali: Path
    library: Path
    tool: Path
    wheels: Sequence[Path]
    headers: Sequence[Path]
    smoke: Sequence[Path]
    examples: Sequence[tuple[str, Path]]  # (language, file)
    licences: Mapping[str, Path]
    cases: Path
    recipe: Path | None

    @property
    def name(self) -> str:
        return f"malisdk-{self.model}-{self.target}"


def make_bundle(out: Path, contents: Contents) -> dict[str, Entry]:
    """Write the archive and return its entries; equal inputs give equal bytes.

    Raises BundleError for a binary that the target could not load, or for inputs that do not belong together.
    """
    plan = container.read(contents.mali)
    if plan.target != contents.target:
        raise BundleError(f"{contents.mali}: target, got {plan.target}; expected {contents.target}")
    soname = _check_binaries(contents)
    entries = dict(_entries(contents, plan, soname))
    folders = {name.partition("/")[0] for name in entries}
    if missing := {"models", "lib", "bin", "include", "smoke", "licences"} - folders:
        raise BundleError(f"{out.name}: empty folders, got nothing in {', '.join(sorted(missing))}; expected files")
    entries[manifest.FILE_NAME] = Entry(
        data=manifest.manifest_text(
            name=contents.name,
            target=contents.target,
            model=_model_facts(contents, plan),
            versions=manifest.versions(next(h for h in contents.headers if h.name == "malisdk.h")),
            entries=entries,
        ).encode()
    )
    write_archive(out, root=contents.name, entries=entries)
    return entries


def _check_binaries(contents: Contents) -> str:
    """The library's soname. Wheels are looked into."""
    with contents.library.open("rb") as f:
        library = check_elf(f, name=str(contents.library), machine=contents.machine, limit_bytes=LIBRARY_LIMIT_BYTES)
    if library.soname is None or not library.soname.startswith(_LINK_NAME):
        raise BundleError(f"{contents.library}: soname, got {library.soname}; expected {_LINK_NAME}.<number>")
    with contents.tool.open("rb") as f:
        check_elf(f, name=str(contents.tool), machine=contents.machine)
    for wheel in contents.wheels:
        with zipfile.ZipFile(wheel) as archive:
            binaries = [name for name in archive.namelist() if ".so" in Path(name).suffixes]
            if not binaries:
                raise BundleError(f"{wheel}: no binaries, got none; expected an extension module")
            for name in binaries:
                limit = LIBRARY_LIMIT_BYTES if Path(name).name.startswith(_LINK_NAME) else None
                stream = io.BytesIO(archive.read(name))
                check_elf(stream, name=f"{wheel}: {name}", machine=contents.machine, limit_bytes=limit)
    return library.soname


def _entries(contents: Contents, plan: Plan, soname: str) -> Iterator[tuple[str, Entry]]:
    words = {
        "name": contents.name,
        "version": __version__,
        "version_series": ".".join(__version__.split(".")[:2]),
        "model": contents.model,
        "target": contents.target,
        "dtype": plan.dtype,
        "soname": soname,
        "tensors": _tensor_rows(plan),
        "pythons": ", ".join(_python_of(w) for w in contents.wheels) or "none",
    }
    yield "README.md", _filled("README.md.in", words)
    yield "smoke/run.sh", _filled("run.sh.in", words, executable=True)
    yield "lib/pkgconfig/malisdk.pc", _filled("malisdk.pc.in", words)
    for name in ("malisdkConfig.cmake", "malisdkConfigVersion.cmake"):
        yield f"lib/cmake/malisdk/{name}", _filled(f"{name}.in", words)
    yield f"lib/{soname}", _file(contents.library, executable=True)
    yield f"lib/{_LINK_NAME}", Entry(link=soname)
    yield "bin/malisdk", _file(contents.tool, executable=True)
    yield f"models/{contents.model}.mali", _file(contents.mali)
    for header in contents.headers:
        yield f"include/malisdk/{header.name}", _file(header)
    for wheel in contents.wheels:
        yield f"python/{wheel.name}", _file(wheel)
    for file in contents.smoke:
        yield f"smoke/{file.name}", _file(file, executable=True)
    for language, file in contents.examples:
        yield f"examples/{language}/{file.name}", _file(file)
    for name, file in contents.licences.items():
        yield f"licences/{name}", _file(file)
    yield from _folder(contents.cases, "smoke/cases")
    if contents.recipe is not None:
        if (labels := contents.recipe / "labels.txt").is_file():
            yield "models/labels.txt", _file(labels)
        yield from _folder(contents.recipe / "licences", "licences/models")


def _folder(folder: Path, name: str) -> Iterator[tuple[str, Entry]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield f"{name}/{file.relative_to(folder).as_posix()}", _file(file)


def _file(path: Path, *, executable: bool = False) -> Entry:
    try:
        return Entry(data=path.read_bytes(), executable=executable)
    except OSError as e:
        raise BundleError(f"{path}: cannot be read: {e.strerror or e}") from e


def _filled(template: str, words: Mapping[str, str], *, executable: bool = False) -> Entry:
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    return Entry(data=re.sub(r"@(\w+)@", lambda m: words[m[1]], text).encode(), executable=executable)


def _python_of(wheel: Path) -> str:
    """malisdk-0.1.0-cp311-cp311-linux_aarch64.whl -> 3.11."""
    tag = wheel.stem.split("-")[2].removeprefix("cp")
    return f"{tag[0]}.{tag[1:]}"


def _tensor_rows(plan: Plan) -> str:
    rows = [("input", t) for t in plan.inputs] + [("output", t) for t in plan.outputs]
    return "\n".join(f"| {what} | `{t.name}` | {t.dtype} | {list(t.shape)} |" for what, t in rows)


def _model_facts(contents: Contents, plan: Plan) -> dict[str, object]:
    tensors = {
        key: [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in specs]
        for key, specs in (("inputs", plan.inputs), ("outputs", plan.outputs))
    }
    return {"name": contents.model, "dtype": plan.dtype, **tensors}
