"""The native suite once more, with the runtime built under the sanitizers of g++."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = {
    "asan": sorted(path for path in HERE.glob("test_*.py") if path.name != Path(__file__).name),
    "tsan": [HERE / "test_runtime.py"],
}


def _library(name: str) -> Path:
    shown = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return Path(shown.stdout.strip())


@pytest.mark.slow
@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("variant", ["asan", "tsan"])
def test_suite_under_sanitizer_reports_nothing(tmp_path: Path, variant: str):
    """asan: AddressSanitizer and UndefinedBehaviorSanitizer; tsan: ThreadSanitizer."""
    if os.environ.get("MALISDK_TEST_VARIANT"):
        pytest.skip("this is the run under a sanitizer")
    # Python links no libstdc++, whose throw the sanitizer must find when it starts.
    preload = [_library(f"lib{variant}.so"), _library("libstdc++.so.6")]
    if not all(path.is_absolute() for path in preload):
        pytest.skip(f"g++ has no lib{variant} on this machine")
    report = f"log_path={tmp_path}/report"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *map(str, FILES[variant])],
        cwd=HERE.parents[1],
        env={
            **os.environ,
            "MALISDK_TEST_VARIANT": variant,
            "LD_PRELOAD": " ".join(map(str, preload)),
            # Python and pocl keep memory to the end; what the runtime leaks is counted object by object in the suite.
            "ASAN_OPTIONS": f"detect_leaks=0:detect_odr_violation=0:{report}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:{report}",
            # pocl and Python are not built for it, so what they share among themselves looks like races.
            "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:{report}",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    reports = "".join(p.read_text() for p in sorted(tmp_path.glob("report*")))
    assert done.returncode == 0 and not reports, reports[:6000] + done.stdout[-6000:] + done.stderr[-3000:]
