"""Runs one program in an unpacked root, in private mount and process namespaces; a program of its own.

    python namespace.py JSON STATUS_FD

It stands alone (standard library only), since it forks and changes the identity of its process. Three processes:

    launcher   makes the namespaces, waits, returns the program's exit code
    init       process 1 in there: mounts, reaps orphans, ends when the program ends, and all others with it
    program    chroots and becomes the guest program

The guest sees the root read-only, a folder of the host as /tmp, an own /proc, /sys, and a /dev of six devices. If an
interpreter is given, arm64 programs start by it through binfmt_misc, which a user namespace can have to itself since
Linux 6.7, so nothing is registered on this machine. If the launcher is killed, the kernel ends all the rest.

STATUS_FD gets "started" once the guest is set up; otherwise what failed, and the exit code is 125.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

SETUP_FAILED = 125
STARTED = "started"

_NEW_MOUNTS, _NEW_USERS, _NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE, _NOATIME = 1, 32, 4096, 16384, 1 << 18, 1024
_NOSUID, _NODEV, _NOEXEC, _NODIRATIME, _RELATIME = 2, 4, 8, 2048, 1 << 21
_PARENT_DEATH_SIGNAL = 1
# statvfs says relatime by another bit than mount takes; the others are equal.
_STATVFS_RELATIME = 4096
_IDS = 65536
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# ELF, 64-bit, little-endian, executable or shared object, machine 183 (AArch64); the OS ABI byte is free.
_MAGIC = rb"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = rb"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"

_libc = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """A step of the setup failed; the text says which and why."""


def _call(what: str, result: int) -> None:
    if result != 0:
        raise SetupError(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: Path, kind: str | None = None, flags: int = 0) -> None:
    result = _libc.mount(
        source.encode(), os.fspath(target).encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None
    )
    _call(f"mount {kind or source} on {target}", result)


def _die_with_parent() -> None:
    _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def launch(request: dict[str, Any], status: int) -> int:
    """Make the namespaces and the guest in them; returns the guest program's exit code."""
    _die_with_parent()
    flags = _NEW_MOUNTS | _NEW_PIDS
    if request["user_namespace"]:
        _unshare_mapped(flags | _NEW_USERS)
    else:
        _call("unshare", _libc.unshare(flags))
    init = os.fork()
    if init == 0:
        _guard(status, lambda: _init(request, status))
    os.close(status)
    _, ended = os.waitpid(init, 0)
    return _exit_code(ended)


def _unshare_mapped(flags: int) -> None:
    """Enter a user namespace with this user as root in it.

    Root also brings its other users along, so that archives with other owners unpack; their ids can only be mapped from
    outside, by a process that stayed there.
    """
    target, uid, gid = os.getpid(), os.geteuid(), os.getegid()
    count = _IDS if uid == 0 else 1
    unshared_read, unshared_write = os.pipe()
    mapped_read, mapped_write = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(unshared_write)
        code = 1
        if os.read(unshared_read, 1):
            with contextlib.suppress(OSError):
                if uid != 0:
                    Path(f"/proc/{target}/setgroups").write_text("deny")
                Path(f"/proc/{target}/gid_map").write_text(f"0 {gid} {count}\n")
                Path(f"/proc/{target}/uid_map").write_text(f"0 {uid} {count}\n")
                os.write(mapped_write, b"x")
                code = 0
        os._exit(code)
    os.close(mapped_write)
    _call("unshare", _libc.unshare(flags))
    os.write(unshared_write, b"x")
    mapped = os.read(mapped_read, 1)
    os.waitpid(mapper, 0)
    for descriptor in (unshared_read, unshared_write, mapped_read):
        os.close(descriptor)
    if not mapped:
        raise SetupError("map users: Operation not permitted")
    os.setgid(0)
    os.setuid(0)
    _die_with_parent()


def _init(request: dict[str, Any], status: int) -> int:
    _die_with_parent()
    root = Path(request["root"])
    _prepare_root(root, Path(request["tmp"]), request["interpreter"])
    program = os.fork()
    if program == 0:
        _guard(status, lambda: _become(request, root, status))
    os.close(status)
    while True:
        pid, ended = os.wait()
        if pid == program:
            return _exit_code(ended)


def _prepare_root(root: Path, tmp: Path, interpreter: str | None) -> None:
    _mount("none", Path("/"), flags=_RECURSIVE | _PRIVATE)
    _mount(str(root), root, flags=_BIND)
    _mount("none", root, flags=_REMOUNT | _BIND | _READ_ONLY | _kept_flags(root))
    _mount(str(tmp), root / "tmp", flags=_BIND)
    _mount("proc", root / "proc", "proc")
    _mount("/sys", root / "sys", flags=_BIND | _RECURSIVE)
    _mount("tmpfs", root / "dev", "tmpfs", _NOSUID)
    for name in _DEVICES:
        (root / "dev" / name).touch()
        _mount(f"/dev/{name}", root / "dev" / name, flags=_BIND)
    (root / "dev" / "shm").mkdir(mode=0o1777)
    for name, source in (("fd", "self/fd"), ("stdin", "self/fd/0"), ("stdout", "self/fd/1"), ("stderr", "self/fd/2")):
        (root / "dev" / name).symlink_to(f"/proc/{source}")
    if interpreter is not None:
        binfmt = root / "proc" / "sys" / "fs" / "binfmt_misc"
        if not binfmt.is_dir():
            raise SetupError("mount binfmt_misc: the kernel has no binfmt_misc (modprobe binfmt_misc)")
        _mount("binfmt_misc", binfmt, "binfmt_misc")
        rule = b":malisdk-aarch64:M::" + _MAGIC + b":" + _MASK + b":" + os.fsencode(interpreter) + b":OCF"
        try:
            (binfmt / "register").write_bytes(rule)
        except OSError as e:
            raise SetupError(f"register {interpreter} with binfmt_misc: {e.strerror}") from e


def _kept_flags(path: Path) -> int:
    """Flags of the mount that a user namespace may not drop."""
    now = os.statvfs(path).f_flag
    return now & (_NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME) | (_RELATIME if now & _STATVFS_RELATIME else 0)


def _become(request: dict[str, Any], root: Path, status: int) -> int:
    """Replace this process by the guest program; returns the shell's codes 126 and 127 if that is not possible."""
    _die_with_parent()
    try:
        os.chroot(root)
        os.chdir(request["cwd"])
    except OSError as e:
        raise SetupError(f"enter {request['cwd']} in {root}: {e.strerror}") from e
    os.write(status, STARTED.encode())
    os.close(status)
    env, argv = request["env"], request["argv"]
    os.environ["PATH"] = env["PATH"]
    try:
        os.execvpe(argv[0], argv, env)
    except FileNotFoundError:
        print(f"{argv[0]}: not found", file=sys.stderr, flush=True)
        return 127
    except OSError as e:
        print(f"{argv[0]}: {e.strerror}", file=sys.stderr, flush=True)
        return 126


def _guard(status: int, work: Any) -> NoReturn:
    """Run a forked process' work and leave; no exception may run the parent's code twice."""
    code = SETUP_FAILED
    try:
        code = work()
    except SetupError as e:
        os.write(status, str(e).encode())
    except OSError as e:
        os.write(status, f"{e.filename or 'guest'}: {e.strerror}".encode())
    finally:
        os._exit(code)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main() -> int:
    request, status = json.loads(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(status, False)
    try:
        return launch(request, status)
    except SetupError as e:
        os.write(status, str(e).encode())
        return SETUP_FAILED


if __name__ == "__main__":
    sys.exit(main())
