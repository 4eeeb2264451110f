"""Identifiers that are legal and unique in one OpenCL C function."""

import re

# Words that a tensor may well be called and OpenCL C claims: keywords, types, and built-in functions.
_WORDS = """
auto break case char const continue default do double else enum extern float for goto half if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool
uchar ushort uint ulong size_t kernel global local constant private generic image2d_t sampler_t event_t true false
read_only write_only read_write pipe complex imaginary quad vec_step as_type convert abs acos all any asin atan
bitselect ceil clamp clz copysign cos cross degrees distance dot erf erfc exp fabs fdim floor fma fmax fmin fmod
fract frexp hypot ilogb isequal isnan isinf ldexp length lgamma log mad max maxmag min minmag mix mod modf nan
nextafter normalize popcount pow powr prefetch radians rint root rootn rotate round rsqrt select shuffle sign
signbit sin sinh smoothstep sqrt step tan tanh tgamma trunc upsample barrier printf M_PI NAN INFINITY
"""
_RESERVED = frozenset(_WORDS.split())


class Names:
    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, wish: str) -> str:
        """An identifier like `wish` that nobody else got."""
        name = re.sub(r"\W", "_", wish, flags=re.ASCII) or "v"
        if (
            name[0].isdigit()
            or name.startswith("__")
            or re.fullmatch(r"(u?(char|short|int|long)|float|half|double)\d+", name)
            or re.match(r"(get|as|convert|vload|vstore)(_|\d)", name)
        ):
            name = "v" + name
        if name in _RESERVED:
            name += "_"
        unique, n = name, 0
        while unique in self._taken:
            n += 1
            unique = f"{name}_{n}"
        self._taken.add(unique)
        return unique


def snake_case(name: str) -> str:
    """ "buffer_store" for BufferStore."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
