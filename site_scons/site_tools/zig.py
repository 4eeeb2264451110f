"""SCons tool: C++ for any Linux with zig's clang, libc++ and linker; nothing of the build machine's toolchain is used.

Set ZIG_TRIPLE (such as aarch64-linux-gnu.2.27) and ZIG_CPU. The compiler is called by its own path, so that SCons
follows it as an input.
"""

import os
from pathlib import Path
from typing import Any

import SCons.Tool
from SCons.Util import CLVar

from malisdk_build.zig import find_zig

_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")


def generate(env: Any) -> None:
    zig = find_zig() / "zig"
    for tool in ("c++", "link"):
        SCons.Tool.Tool(tool)(env)
    zig_cache = str(Path(os.environ.get("MALISDK_CACHE_DIR") or env.Dir("#build").abspath, "zig"))
    # A clean environment: CPATH, LIBRARY_PATH and their like would reach clang.
    env["ENV"] = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {
        "ZIG_GLOBAL_CACHE_DIR": zig_cache,
        "ZIG_LOCAL_CACHE_DIR": zig_cache,
    }
    env["ZIG"] = str(zig)
    env["CXX"] = ["$ZIG", "c++", "-target", "$ZIG_TRIPLE", "-mcpu=$ZIG_CPU"]
    # zig takes a file of any other suffix for something that clang has to understand.
    env["SHOBJSUFFIX"] = ".o"
    env["LINK"] = "$CXX"
    env["SHLINK"] = "$CXX"
    # The same bytes wherever the tree stands: no debug information, no paths, an id that is a hash of the contents.
    env["CCFLAGS"] = CLVar("-g0 -ffunction-sections -fdata-sections -Wall -Wextra -Werror=date-time")
    env["SHCCFLAGS"] = CLVar("$CCFLAGS -fPIC")
    env["CXXFLAGS"] = CLVar("-std=c++17 -O2 -DNDEBUG -fvisibility=hidden -fvisibility-inlines-hidden")
    env["LINKFLAGS"] = CLVar("-s -Wl,--gc-sections -Wl,--build-id=sha1 -Wl,-z,relro -Wl,-z,now")
    env["SHLINKFLAGS"] = CLVar("$LINKFLAGS -shared")


def exists(env: Any) -> bool:
    return True
