"""Shapes of model inputs that are given on the command line: `--shape NAME:1,3,224,224`."""

import difflib
import shlex
from collections.abc import Mapping, Sequence

from .errors import ConfigError

OPTION_HELP = "NAME:1,3,224,224: static shape of an input that the model leaves open; once for each such input"
_FORM = "NAME:1,3,224,224"


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Name and shape out of `NAME:1,3,224,224`; a name may hold colons, the last one separates.

    Raises ConfigError if there is no name, or an extent is not a positive integer.
    """
    name, colon, extents = text.rpartition(":")
    if not colon or not name:
        raise ConfigError(f"--shape: no input name, got {text!r}; expected {_FORM}")
    words = [word.strip() for word in extents.split(",")]
    if not all(word.isascii() and word.isdecimal() and 0 < int(word) < 2**31 for word in words):
        raise ConfigError(f"--shape: extents of {name}, got {extents!r}; expected positive integers as in {_FORM}")
    return name, tuple(int(word) for word in words)


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """All `--shape` options by input name. Raises ConfigError also if an input is named twice with different shapes."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, shape = parse_shape(text)
        if shapes.setdefault(name, shape) != shape:
            raise ConfigError(f"--shape: shape of {name} given twice, got {shapes[name]} and {shape}; expected one")
    return shapes


def resolve_shapes(
    source: str,
    declared: Mapping[str, Sequence[int | str | None] | None],
    given: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """The static shape of every input of the model `source`.

    `declared` are the model's own shapes: an extent that is no positive integer is open, None is an open rank. Raises
    ConfigError, naming all inputs concerned, if an open shape is not given, a given shape contradicts the model, or an
    input is not there.
    """
    for name in given:
        if name not in declared:
            near = difflib.get_close_matches(name, declared, 1)
            raise ConfigError(
                f"{source}: no such input, got --shape {name}; expected one of {', '.join(declared) or 'none'}",
                hint=f"did you mean {near[0]}?" if near else None,
            )
    shapes: dict[str, tuple[int, ...]] = {}
    missing: list[str] = []
    wrong: list[str] = []
    for name, extents in declared.items():
        chosen = tuple(given[name]) if name in given else None
        static = None if extents is None else tuple(e if isinstance(e, int) and e > 0 else None for e in extents)
        if chosen is None:
            if static is None or None in static:
                missing.append(name)
            else:
                shapes[name] = tuple(e for e in static if e is not None)
        elif static is not None and (
            len(static) != len(chosen) or any(s not in (None, c) for s, c in zip(static, chosen, strict=True))
        ):
            wrong.append(f"{name} {shape_text(chosen)} for {shape_text(extents)}")
        else:
            shapes[name] = chosen
    if wrong:
        raise ConfigError(f"{source}: --shape contradicts the model, got {'; '.join(wrong)}; expected the same extents")
    if missing:
        examples = [shlex.quote(shape_example(name, declared[name])) for name in missing]
        options = " ".join(f"--shape {e}" for e in examples)
        got = "; ".join(f"{name} {shape_text(declared[name])}" for name in missing)
        raise ConfigError(
            f"{source}: input shape is not static, got {got}; expected positive integers",
            hint=f"give it, for example {options} (scons: {' '.join(f'shape={e}' for e in examples)})",
        )
    return shapes


def has_open_extent(extents: Sequence[int | str | None] | None) -> bool:
    """Whether a declared shape leaves something to be given."""
    return extents is None or not all(isinstance(e, int) and e > 0 for e in extents)


def shape_text(extents: Sequence[int | str | None] | None) -> str:
    """`[1,3,height,?]`."""
    if extents is None:
        return "[any rank]"
    return f"[{','.join(str(e) if e not in (None, '', 0, -1) else '?' for e in extents)}]"


def shape_example(name: str, extents: Sequence[int | str | None] | None) -> str:
    if extents is None:
        return f"{name}:1,3,224,224"
    return f"{name}:{','.join(str(e) if isinstance(e, int) and e > 0 else '1' for e in extents)}"
