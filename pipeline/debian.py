"""Debian packages of any architecture, downloaded and unpacked without installing anything on this machine.

apt runs with a private configuration: its own lists, cache and (empty) status, the machine's own mirror and transport
settings (proxy, retries), and the Debian archive keyring, so every file is checked against a signed index.
"""

import os
import platform
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from . import log, process
from .errors import ToolchainError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "MALISDK_DEBIAN_MIRROR"

_APT_TIMEOUT_S = 900
_INSTALL = "apt install apt dpkg debian-archive-keyring"
# The machine's transport settings hold for any suite; the rest (index targets, languages) describes its own lists.
_KEPT_SETTINGS = re.compile(r"Acquire::(?!IndexTargets|Languages|Changelogs|CompressionTypes|cdrom)\S+ ", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """`name` is Debian's word for it, `machine` uname's, `loader` the file in /lib64 that starts programs, if any."""

    name: str
    machine: str
    loader: str | None = None

    @property
    def multiarch(self) -> str:
        """The folder below /usr/lib that its libraries are in."""
        return f"{self.machine}-linux-gnu"


ARM64 = Architecture(name="arm64", machine="aarch64")
AMD64 = Architecture(name="amd64", machine="x86_64", loader="ld-linux-x86-64.so.2")


@dataclass(frozen=True, kw_only=True)
class Apt:
    """A private apt: `env` is the environment that its programs run in, `archives` where packages are downloaded to."""

    suite: str
    mirror: str
    env: Mapping[str, str]
    archives: Path


def own_architecture() -> Architecture:
    """What this machine runs by itself. Raises ToolchainError for a machine whose packages nothing here knows."""
    machine = platform.machine()
    for architecture in (ARM64, AMD64):
        if architecture.machine == machine:
            return architecture
    raise ToolchainError(f"debian: unknown machine, got {machine}; expected {ARM64.machine} or {AMD64.machine}")


def find_mirror() -> str:
    """The Debian mirror that this machine's apt uses.

    Raises ToolchainError when there is none, as on other distributions, unless $MALISDK_DEBIAN_MIRROR names one.
    """
    if named := os.environ.get(MIRROR_VARIABLE):
        return named.rstrip("/")
    apt_get = process.find_program("apt-get", hint=_INSTALL)
    lines = _query([apt_get, "indextargets", "--format", "$(LABEL)|$(SITE)", "Created-By: Packages"]).splitlines()
    sites = [line.partition("|") for line in lines]
    for label, _, site in sites:
        if label == "Debian" or (not label and re.search(r"/debian(\.list)?/*$", site)):
            return site.rstrip("/")
    known = ", ".join(sorted({site for _, _, site in sites})) or "none"
    raise ToolchainError(
        f"apt sources: no Debian mirror, got {known}; expected one with Debian's packages",
        hint=f"set {MIRROR_VARIABLE} to the address of a Debian mirror",
    )


@contextmanager
def private_apt(suite: str, architecture: Architecture = ARM64) -> Iterator[Apt]:
    """An apt for an architecture's packages of `suite` with its package lists loaded; its folder is removed at the end.

    Raises ToolchainError: apt, dpkg or the keyring is missing, no mirror, mirror not reachable, wrong signature.
    """
    apt_get = process.find_program("apt-get", hint=_INSTALL)
    process.find_program("dpkg-deb", hint=_INSTALL)
    if not KEYRING.is_file():
        raise ToolchainError(f"{KEYRING}: no such file; expected Debian's archive keys", hint=_INSTALL)
    mirror = find_mirror()
    with TemporaryDirectory(prefix="malisdk-apt-") as name:
        apt = Apt(suite=suite, mirror=mirror, env={**os.environ, "APT_CONFIG": f"{name}/apt.conf"}, archives=Path(name))
        _write_configuration(Path(name), suite, mirror, architecture.name)
        try:
            process.call([apt_get, "-q", "update"], env=apt.env, timeout_s=_APT_TIMEOUT_S)
        except ToolchainError as e:
            raise ToolchainError(
                f"{mirror}: cannot load the package lists of Debian {suite} ({architecture.name})\n{e}",
                hint=f"check the network, or name another Debian mirror in {MIRROR_VARIABLE}",
            ) from e
        yield apt


def download(apt: Apt, packages: Sequence[str], *, dependencies: bool) -> list[Path]:
    """The .deb files of `packages`, with everything they depend on if so asked, in the order of their names."""
    apt_get = process.find_program("apt-get", hint=_INSTALL)
    if dependencies:
        words = ["-qy", "--download-only", "install", *packages]
        folder = apt.archives / "cache" / "archives"
    else:
        words = ["-q", "download", *packages]
        folder = apt.archives / "downloads"
        folder.mkdir(exist_ok=True)
    process.call([apt_get, *words], env=apt.env, cwd=folder, timeout_s=_APT_TIMEOUT_S)
    found = sorted(folder.glob("*.deb"))
    if not found:
        raise ToolchainError(f"Debian {apt.suite}: apt-get downloaded nothing, expected {', '.join(packages)}")
    return found


def unpack(packages: Sequence[Path], folder: Path) -> None:
    """Unpack .deb files into `folder`; no maintainer script runs."""
    dpkg_deb = process.find_program("dpkg-deb", hint=_INSTALL)
    log.info(f"unpack {len(packages)} packages")
    for package in packages:
        done = subprocess.run([dpkg_deb, "-x", package, folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(f"{package.name}: dpkg-deb cannot unpack it\n{done.stderr.strip()}")


def read_file(package: Path, member: str) -> bytes:
    """One file of a .deb file, by its name in it such as ./usr/bin/true. Raises ToolchainError if it is not there."""
    dpkg_deb = process.find_program("dpkg-deb", hint=_INSTALL)
    with TemporaryFile() as archive:
        done = subprocess.run(
            [dpkg_deb, "--fsys-tarfile", package], stdout=archive, stderr=subprocess.PIPE, text=False, check=False
        )
        if done.returncode != 0:
            raise ToolchainError(f"{package.name}: dpkg-deb cannot read it\n{done.stderr.decode().strip()}")
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            try:
                content = tar.extractfile(member)
            except KeyError:
                content = None
            if content is None:
                raise ToolchainError(f"{package.name}: no file {member} in it")
            return content.read()


def _write_configuration(folder: Path, suite: str, mirror: str, architecture: str) -> None:
    for name in ("state/lists/partial", "cache/archives/partial", "parts", "preferences"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [arch={architecture} signed-by={KEYRING}] {mirror} {suite} main\n")
    machine = _query([process.find_program("apt-config", hint=_INSTALL), "dump", "--no-empty", "Acquire"]).splitlines()
    settings = [line for line in machine if _KEPT_SETTINGS.match(line)]
    settings += [
        f'Dir::State "{folder}/state";',
        f'Dir::State::status "{folder}/status";',
        f'Dir::Cache "{folder}/cache";',
        f'Dir::Etc::sourcelist "{folder}/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        'Dir::Etc::main "/dev/null";',
        f'Dir::Etc::parts "{folder}/parts";',
        f'Dir::Etc::preferencesparts "{folder}/preferences";',
        'Dir::Etc::preferences "/dev/null";',
        f'APT::Architecture "{architecture}";',
        f'APT::Architectures {{ "{architecture}"; }};',
        'APT::Update::Error-Mode "any";',
        'APT::Install-Recommends "false";',
        'APT::Sandbox::User "";',
        'Acquire::Languages "none";',
        'Binary::apt-get::APT::Keep-Downloaded-Packages "true";',
    ]
    (folder / "apt.conf").write_text("\n".join(settings) + "\n")


def _query(argv: Sequence[str | Path]) -> str:
    done = subprocess.run([os.fspath(a) for a in argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{argv[0]}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout
