"""What of the sources goes into an SDK."""

from pathlib import Path

from malisdk_build import sdk

ROOT = Path(__file__).resolve().parents[2]


def files_below(*folders: str) -> set[Path]:
    return {f for folder in folders for f in (ROOT / folder).rglob("*") if f.is_file() and f.suffix != ".pyc"}


def test_every_example_is_in_the_sdk() -> None:
    found = {f for pattern in sdk.EXAMPLES.values() for f in ROOT.glob(pattern)}
    assert found == files_below("native/examples", "bindings/python/examples")


def test_every_public_header_is_in_the_sdk() -> None:
    assert set(ROOT.glob(sdk.HEADERS)) == files_below("native/include")
