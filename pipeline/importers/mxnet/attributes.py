"""A node's attributes, which MXNet writes as text, as numbers and tuples."""

import re
from collections.abc import Mapping

from ..findings import Unsupported

# What says nothing about the answer: training, scheduling, and how a driver is to be used.
_WITHOUT_MEANING = frozenset(
    {
        "ctx_group",
        "cudnn_algo_verbose",
        "cudnn_off",
        "cudnn_tune",
        "force_mirroring",
        "lr_mult",
        "num_args",
        "wd_mult",
        "workspace",
    }
)
_HIDDEN = re.compile(r"__.*__|.*_(lr|wd)_mult|.*__init__")
_TUPLE = re.compile(r"[\[(](.*)[\])]", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,18}L?")
_MAX_ITEMS = 4096
_FLAGS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
_NONE = "None"


class Attributes:
    """Every method takes the value that MXNet uses where the attribute is left out.

    All raise Unsupported for text that does not say what is asked for.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {k: v.strip() for k, v in texts.items()}
        self._read: set[str] = set()

    def unread(self) -> list[str]:
        """Attributes that nobody asked for, and that could matter."""
        left = self._texts.keys() - self._read - _WITHOUT_MEANING
        return sorted(name for name in left if not _HIDDEN.fullmatch(name))

    def ignore(self, *names: str) -> None:
        self._read.update(names)

    def given(self, name: str) -> bool:
        return self._text(name) not in (None, _NONE)

    def text(self, name: str, default: str | None, *choices: str) -> str:
        text = self._text(name)
        value = default if text is None else text
        if value is None or (choices and value not in choices):
            raise _unfit(name, value, " or ".join(choices) or "text")
        return value

    def flag(self, name: str, default: bool) -> bool:
        text = self._text(name)
        if text is None:
            return default
        if text not in _FLAGS:
            raise _unfit(name, text, "True or False")
        return _FLAGS[text]

    def integer(self, name: str, default: int | None = None) -> int:
        text = self._text(name)
        if text is None or text == _NONE:
            if default is None:
                raise _unfit(name, text, "an integer")
            return default
        return _integer(name, text)

    def optional_integer(self, name: str) -> int | None:
        return self.integer(name) if self.given(name) else None

    def number(self, name: str, default: float | None = None) -> float:
        text = self._text(name)
        if text is None or text == _NONE:
            if default is None:
                raise _unfit(name, text, "a number")
            return default
        return _number(name, text)

    def numbers(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        text = self._text(name)
        return default if text is None else tuple(_number(name, word) for word in _words(name, text))

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A tuple; a bare number is a tuple of one."""
        text = self._text(name)
        if text is None or text == _NONE:
            if default is None:
                raise _unfit(name, text, "a tuple of integers")
            return default
        return tuple(_integer(name, word) for word in _words(name, text))

    def optional_integers(self, name: str) -> tuple[int | None, ...]:
        """A tuple in which None may stand, as in `slice`; empty where it is left out."""
        text = self._text(name)
        words = [] if text is None or text == _NONE else _words(name, text)
        return tuple(None if word == _NONE else _integer(name, word) for word in words)

    def spatial(self, name: str, rank: int, default: int) -> tuple[int, ...]:
        """One number a spatial dimension. An empty tuple, too, stands for the default."""
        values = self.integers(name, ()) or (default,) * rank
        if len(values) != rank:
            raise _unfit(name, str(values), f"{rank} numbers")
        return values

    def _text(self, name: str) -> str | None:
        self._read.add(name)
        return self._texts.get(name)


def _words(name: str, text: str) -> list[str]:
    found = _TUPLE.fullmatch(text)
    words = [word.strip() for word in (found[1] if found else text).split(",")]
    if words and not words[-1]:
        del words[-1]
    if len(words) > _MAX_ITEMS:
        raise _unfit(name, f"{len(words)} items", f"at most {_MAX_ITEMS}")
    return words


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _unfit(name, text, "an integer")
    return int(text.removesuffix("L"))


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as e:
        raise _unfit(name, text, "a number") from e


def _unfit(name: str, got: str | None, expected: str) -> Unsupported:
    return Unsupported(f"attribute {name}, got {'nothing' if got is None else got[:80]}; expected {expected}")
