"""The documents say what the code says, and their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from malisdk_pipeline import errors
from malisdk_pipeline.__main__ import build_parser

from malisdk_build import options

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_MACHINE_PATH = re.compile(rb"(?<![\w./$~{}<>*-])/(?:tmp|root|work|opt|home)/[A-Za-z0-9]\w*")
# Inside a device, where these are the same for everybody.
_ON_DEVICES = {b"/tmp/home", b"/tmp/work", b"/tmp/scripted", b"/tmp/x"}
_REGISTRY_HOST = re.compile(
    rb"(?:deb|security|ftp\.\w+)\.debian\.org|archive\.ubuntu\.com|pypi\.org|registry\.npmjs\.org"
)


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no git checkout, or git is not installed")
    return [p for name in done.stdout.decode().split("\0") if name and (p := ROOT / name).is_file()]


def documents() -> list[Path]:
    return [p for p in tracked_files() if p.suffix == ".md" and "third_party" not in p.parts]


def table(path: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its two head rows; `code` alone in a cell is taken out."""
    below = path.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    assert below, f"{path}: no heading {heading}"
    rows = below[below.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in row[1:-1].split("|")] for row in rows[2:]]


def test_every_error_class_has_its_row() -> None:
    classes = [errors.MaliSdkError, *errors.MaliSdkError.__subclasses__()]
    rows = table(ROOT / "docs/errors.md", "## `python -m malisdk_pipeline`")
    said = {row[1]: int(row[0]) for row in rows if row[1]}
    assert said == {c.__name__: c.exit_code for c in classes}
    assert [int(row[0]) for row in rows] == sorted({int(row[0]) for row in rows})


def test_every_status_of_the_runtime_has_its_row() -> None:
    header = (ROOT / "native/include/malisdk/malisdk.h").read_text()
    statuses = header.partition("typedef int32_t malisdk_status;")[2].partition("};")[0]
    real = {name: int(number) for name, number in re.findall(r"MALISDK_(\w+) = (\d+)", statuses)}
    for path, heading, name, number in (
        ("docs/errors.md", "## The runtime's statuses", 1, 0),
        ("bindings/python/README.md", "## Errors", 1, 0),
    ):
        said = {row[name]: int(row[number]) for row in table(ROOT / path, heading)}
        assert {"OK": 0, **said} == real, path


def test_exit_codes_of_the_runtimes_commands_are_told() -> None:
    enum = (ROOT / "native/tools/commands.h").read_text().partition("enum ExitCode {")[2].partition("}")[0]
    codes = dict(re.findall(r"(k\w+) = (\d)", enum))
    rows = table(ROOT / "docs/errors.md", "## `malisdk` and `python -m malisdk`")
    assert codes, "native/tools/commands.h names no exit codes"
    assert {row[0] for row in rows} == set(codes.values())


def test_readme_lists_every_command_with_its_summary() -> None:
    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    summaries = {action.dest: action.help for action in commands._choices_actions}
    assert dict(table(README, "## Commands")) == summaries


def test_readme_lists_every_option_of_scons() -> None:
    variables = options.declare({})
    real = {v.key: [v.help, str(v.default)] for v in variables.options}
    said = {name: [meaning, default] for name, meaning, default in table(README, "## Options of scons")}
    assert said == real
    for goal in options.GOALS:
        assert f"`{goal}`" in README.read_text().partition("## Options of scons")[2].partition("| option")[0]


def test_scons_help_prints_what_the_readme_says() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", "-C", str(ROOT), "-h"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for name, meaning, default in table(README, "## Options of scons"):
        assert f"{name}: {meaning}\n    default: {default}\n" in done.stdout


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for path in documents():
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            if "://" in target or (linked.exists() and (not anchor or anchor in anchors(linked))):
                continue
            broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives to a document's headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_code_quoted_from_a_file_is_in_that_file() -> None:
    """A block behind `<!-- from FILE -->` stands in FILE word for word; a line `...` stands for lines left out."""
    wrong = []
    for path in documents():
        for file, block in re.findall(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", path.read_text(), re.DOTALL):
            source = (ROOT / file).read_text()
            parts = re.split(r"^ *\.\.\.\n", block, flags=re.MULTILINE)
            wrong += [f"{path.name}: not in {file}:\n{part}" for part in parts if part not in source]
    assert wrong == []


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked_files():
        if "third_party" in path.parts or path == Path(__file__).resolve():
            continue
        data = path.read_bytes()
        for match in [*_MACHINE_PATH.finditer(data), *_REGISTRY_HOST.finditer(data)]:
            if match[0] not in _ON_DEVICES:
                line = data.count(b"\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {match[0].decode()}")
    assert found == []
