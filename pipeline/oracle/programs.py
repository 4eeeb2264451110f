"""OpenCL C text: the kernels in it, and one program a kernel, so that one cannot spoil another's compilation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Stands for the kernel's own name, so that kernels which differ in nothing else are compiled once.
PLAIN_NAME = "oracle_kernel"

_WORD = re.compile(r"\w+")
# What the reader steps over: comments, strings, preprocessor lines (with their continuations).
_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_KERNEL = re.compile(r"\b(?:__kernel|kernel)\b")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A text to compile and the names of its kernels, empty where only the compiler can tell them."""

    source: str
    names: tuple[str, ...]


def split(source: str) -> list[Program]:
    """One program for each kernel of a text: everything of it but the other kernels.

    A text whose kernels come out of macros, or are called by others, stays one program.
    """
    blank = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    hidden = any(_KERNEL.search(m[0]) for m in _SKIPPED.finditer(source) if m[0].lstrip().startswith("#"))
    spans = list(_kernels(blank))
    names = [name for name, _, _ in spans]
    uses = [word for word in _WORD.findall(blank) if word in set(names)]
    if hidden or not spans or len(uses) != len(set(names)):
        return [Program(source=source, names=tuple(names) if not hidden else ())]
    programs = []
    for name in names:
        text = source
        for other, begin, end in reversed(spans):
            if other != name:
                text = text[:begin] + text[end:]
        programs.append(Program(source=text, names=(name,)))
    return programs


def plain(program: Program) -> Program:
    """The program with its kernel renamed to PLAIN_NAME, if it has one kernel."""
    if len(program.names) != 1:
        return program
    source = re.sub(rf"\b{re.escape(program.names[0])}\b", PLAIN_NAME, program.source)
    return Program(source=source.strip() + "\n", names=(PLAIN_NAME,))


def _kernels(blank: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each kernel's definition in a text without comments; its attributes belong to it."""
    depth, begin = 0, 0
    for match in re.finditer(r"[{};]", blank):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
        if depth == 0:
            definition = blank[begin : match.end()]
            head = definition.partition("{")[0]
            if match[0] == "}" and _KERNEL.search(head):
                # The last name before the parameters, after attributes with parentheses of their own.
                named = re.search(r"(\w+)\s*\($", head[: _parameters(head) + 1])
                if named:
                    yield named[1], begin + len(definition) - len(definition.lstrip()), match.end()
            begin = match.end()


def _parameters(head: str) -> int:
    """Where the parameter list of a function's head opens: its last parenthesis that is inside no other."""
    depth, opened = 0, len(head)
    for i, letter in enumerate(head):
        if letter == "(":
            if depth == 0:
                opened = i
            depth += 1
        elif letter == ")":
            depth -= 1
    return opened
