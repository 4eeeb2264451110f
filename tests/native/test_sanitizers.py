"""The whole native suite once more, with the runtime built under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def _library(name: str) -> Path:
    shown = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return Path(shown.stdout.strip())


@pytest.mark.slow
@pytest.mark.usefixtures("opencl")
def test_suite_under_address_and_undefined_sanitizers(tmp_path: Path):
    if os.environ.get("MALISDK_TEST_VARIANT"):
        pytest.skip("this is the run under a sanitizer")
    # Python links no libstdc++, whose throw the sanitizer must find when it starts.
    preload = [_library("libasan.so"), _library("libstdc++.so.6")]
    if not all(path.is_absolute() for path in preload):
        pytest.skip("g++ has no libasan on this machine")
    here = Path(__file__).parent
    files = sorted(path for path in here.glob("test_*.py") if path.name != Path(__file__).name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *map(str, files)],
        cwd=here.parents[1],
        env={
            **os.environ,
            "MALISDK_TEST_VARIANT": "asan",
            "LD_PRELOAD": " ".join(map(str, preload)),
            # Python and pocl keep memory to the end; what the runtime leaks is counted object by object in the suite.
            "ASAN_OPTIONS": f"detect_leaks=0:detect_odr_violation=0:log_path={tmp_path}/report",
            "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={tmp_path}/report",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    reports = "".join(p.read_text() for p in sorted(tmp_path.glob("report*")))
    assert done.returncode == 0 and not reports, reports[:6000] + done.stdout[-6000:] + done.stderr[-3000:]
