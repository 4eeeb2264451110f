"""The whole native suite once more, with the runtime built under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.usefixtures("opencl")
def test_suite_under_address_and_undefined_sanitizers(tmp_path: Path):
    if os.environ.get("MALISDK_TEST_VARIANT"):
        pytest.skip("this is the run under a sanitizer")
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("g++ has no libasan on this machine")
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *(str(p) for p in sorted(here.glob("test_*.py")) if p.name != Path(__file__).name)],
        cwd=here.parents[1],
        env={
            **os.environ,
            "MALISDK_TEST_VARIANT": "asan",
            "LD_PRELOAD": runtime,
            # Python and pocl keep memory to the end; what the runtime leaks is counted object by object in the suite.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:detect_odr_violation=0",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
