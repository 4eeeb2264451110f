"""Tensors that are parts of others: a concatenation whose parts were written where they belong.

A part has no buffer of its own, since buffers may not overlap; kernels get the whole and begin at the part.
"""

import re
from collections.abc import Sequence

_PARAMETER = re.compile(r"^( +(?:const )?__global (\w+)\* )restrict (\w+)(,|\) \{)$", re.MULTILINE)
_ELEMENT_BYTES = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8,
    "double": 8,
}  # fmt: skip


def begin_at(source: str, offsets_bytes: Sequence[int]) -> str:
    """OpenCL C of a kernel whose i-th argument is the part of a larger buffer that begins at offsets_bytes[i].

    `source` is as printer.py makes it: a parameter a line.
    """
    if not any(offsets_bytes):
        return source
    pointers: list[str] = []
    offsets = iter(offsets_bytes)

    def parameter(match: re.Match[str]) -> str:
        kind, element, name, end = match.groups()
        offset_bytes = next(offsets)
        if not offset_bytes:
            return match[0]
        scalar = element.rstrip("0123456789")
        lanes = int(element.removeprefix(scalar) or 1)
        pointers.append(
            f"  {kind.strip()} {name} = {name}_whole + {offset_bytes // (_ELEMENT_BYTES[scalar] * lanes)};\n"
        )
        return f"{kind}restrict {name}_whole{end}"

    head, _, body = source.partition(") {\n")
    head = _PARAMETER.sub(parameter, head + ") {")
    return head + "\n" + "".join(pointers) + body
