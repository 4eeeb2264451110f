"""All node cases of the onnx package through the whole line: what passes passes, what is refused is known."""

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
from malisdk_pipeline.errors import ToolchainError

import node_suite

pytestmark = [pytest.mark.slow, pytest.mark.host_opencl]
LEAST_PASSING = 1350
# Each within the time that a test may take on a busy machine.
PARTS = 4


@pytest.fixture(scope="module")
def table() -> dict[str, tuple[str, str]]:
    version = node_suite.TABLE.read_text(encoding="utf-8").split()[2].rstrip(";")
    if version != onnx.__version__:
        pytest.skip(f"the table is of onnx {version}, installed is {onnx.__version__}")
    return node_suite.read_table()


@pytest.fixture(scope="module")
def cases() -> dict[str, node_suite.Case]:
    return {case.name: case for case in node_suite.cases()}


def in_half(outcome: tuple[str, str]) -> bool:
    return outcome == ("pass", node_suite.HALF)


def changes(chosen: list[node_suite.Case], table: dict[str, tuple[str, str]], folder: Path) -> dict[str, Any]:
    found = {}
    for case, state, reason in node_suite.run(chosen, folder):
        if state != table[case.name][0] or in_half((state, reason)) != in_half(table[case.name]):
            found[case.name] = f"{state} {reason}; was {table[case.name]}"
    return found


def test_table_has_every_case_and_no_other_state(table, cases) -> None:
    counts = Counter(state for state, _ in table.values())
    print(f"{counts['pass']} of {len(table)} node cases pass, {counts['refused']} are refused")
    assert set(table) == set(cases)
    assert set(counts) == {"pass", "refused"}
    assert counts["pass"] >= LEAST_PASSING
    assert all(reason for state, reason in table.values() if state == "refused")


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_on_the_hosts_opencl_are_as_the_table_says(part: int, table, cases, tmp_path: Path) -> None:
    malisdk = pytest.importorskip("malisdk", reason="the malisdk wheel is not installed: ./dev scons host-wheel")
    try:
        if not malisdk.devices():
            pytest.skip("no OpenCL device on this machine (apt: pocl-opencl-icd)")
    except malisdk.Error as e:
        pytest.skip(f"no OpenCL library on this machine (apt: pocl-opencl-icd): {e}")
    chosen = [case for name, case in sorted(cases.items()) if not in_half(table[name])]
    assert changes(chosen[part::PARTS], table, tmp_path) == {}


@pytest.mark.rusticl
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the device needs namespaces")
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed")
def test_cases_in_half_are_as_the_table_says(table, cases, tmp_path: Path) -> None:
    try:
        found = changes([c for n, c in cases.items() if in_half(table[n])], table, tmp_path)
    except ToolchainError as e:
        pytest.skip(f"Mesa's packages or the runtime cannot be had: {e}")
    assert found == {}
