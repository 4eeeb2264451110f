"""The runtime built for this machine, loaded through ctypes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import native_build
from native_abi import Abi, AbiError
from native_stub import Stub


@pytest.fixture(scope="session")
def built() -> native_build.Built:
    """MALISDK_TEST_VARIANT chooses the sanitizer; plain without it."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    return native_build.build(os.environ.get("MALISDK_TEST_VARIANT", "plain"))


@pytest.fixture(scope="session")
def abi(built: native_build.Built) -> Abi:
    return Abi(built.library)


@pytest.fixture(scope="session")
def opencl(abi: Abi) -> None:
    """Skips where no OpenCL device answers."""
    from ctypes import byref, c_uint32

    count = c_uint32()
    try:
        abi.call("malisdk_device_count", None, byref(count))
    except AbiError as e:
        pytest.skip(f"no OpenCL library on this machine (apt: pocl-opencl-icd): {e}")
    if count.value == 0:
        pytest.skip("no OpenCL device on this machine (apt: pocl-opencl-icd)")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels"
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def stub(built: native_build.Built, opencl: None) -> Iterator[Stub]:
    stub = Stub(built.stub)
    stub.reset()
    yield stub
    stub.reset()
