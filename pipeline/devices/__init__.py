"""Machines that SDKs run on, behind one small interface (base.Device), and the texts that name them."""

import difflib
import re
from urllib.parse import urlsplit

from ..errors import ConfigError
from .base import Device, DeviceTimeoutError, Result
from .emulator import EmulatorDevice
from .emulator_root import RECIPES
from .host import HostDevice
from .rusticl import RusticlDevice
from .ssh import SshDevice

__all__ = ["FORMS", "Device", "DeviceTimeoutError", "Result", "parse_device"]

FORMS = "host, rusticl, emulator, emulator:SUITE, ssh://user@host[:port]"


def parse_device(text: str) -> Device:
    """The device that a `device=` text names, not yet open.

    Raises ConfigError: unknown name (the nearest is suggested), or something wrong in an address.
    """
    if text == "host":
        return HostDevice()
    if text == "rusticl":
        return RusticlDevice()
    name, colon, suite = text.partition(":")
    if name == "emulator":
        return EmulatorDevice(suite if colon else None)
    if name == "ssh":
        return _parse_ssh(text)
    names = ["host", "rusticl", "emulator", *(f"emulator:{r.suite}" for r in RECIPES), "ssh"]
    near = difflib.get_close_matches(text, names, 1) or difflib.get_close_matches(name, names, 1)
    hint = None
    if near:
        hint = f"did you mean {'ssh://user@host' if near[0] == 'ssh' else near[0]}?"
    raise ConfigError(f"device: unknown device, got {text!r}; expected {FORMS}", hint=hint)


def _parse_ssh(text: str) -> SshDevice:
    problem = ConfigError(f"device: not an ssh address, got {text!r}; expected ssh://user@host[:port]")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as e:
        raise problem from e
    if parts.scheme != "ssh" or not text.startswith("ssh://") or not parts.hostname or port == 0:
        raise problem
    if parts.password is not None:
        raise ConfigError(
            "device: a password in an ssh address is not supported; expected a key",
            hint=f"ssh-copy-id {parts.username}@{parts.hostname}",
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise problem
    words = [parts.hostname, *([parts.username] if parts.username else [])]
    if parts.username == "" or not all(re.fullmatch(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%$-]*", word) for word in words):
        raise problem
    host = parts.hostname if ":" in parts.hostname else parts.netloc.rpartition("@")[2].partition(":")[0]
    return SshDevice(host=host, user=parts.username, port=port)
