"""The OpenCL C that printers of loop nests write, as a tree: loops, conditions, assignments, declarations.

Enough of the language for kernels without functions of their own, structures, `switch` and `goto`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ScheduleError

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFhHuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])",
    re.DOTALL,
)
_QUALIFIERS = (
    *("const", "volatile", "restrict", "unsigned", "signed", "global", "local", "private", "constant"),
    *("__global", "__local", "__private", "__constant"),
)
SCALAR_BYTES = {
    "char": 1,
    "uchar": 1,
    "bool": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
    "double": 8,
    "size_t": 8,
}
_TYPE = re.compile(rf"({'|'.join(SCALAR_BYTES)})(2|3|4|8|16)?$")
_LEVELS = (
    *(("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>")),
    *(("+", "-"), ("*", "/", "%")),
)
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


@dataclass(frozen=True, kw_only=True)
class Type:
    """`scalar` is OpenCL's name of one lane; a vector of 3 takes the room of 4."""

    scalar: str
    lanes: int = 1
    is_pointer: bool = False

    @property
    def size_bytes(self) -> int:
        return SCALAR_BYTES[self.scalar] * (4 if self.lanes == 3 else self.lanes)

    @property
    def pointed(self) -> "Type":
        return Type(scalar=self.scalar, lanes=self.lanes)


def size_of(name: str) -> int | None:
    """The bytes of a type such as float4; None if there is none of that name."""
    match = _TYPE.match(name)
    return None if match is None else Type(scalar=match[1], lanes=int(match[2] or 1)).size_bytes


@dataclass(frozen=True, kw_only=True)
class Expression:
    """`kind`: number, name, call, index, member, cast, unary, binary, choice, list; `text`: its literal or operator."""

    kind: str
    text: str = ""
    parts: tuple["Expression", ...] = ()
    type: Type | None = None


@dataclass(frozen=True, kw_only=True)
class Assign:
    """`target` is None for a bare expression; `type` is a declaration's; `operator` is = or one of += and the rest."""

    target: Expression | None
    operator: str
    value: Expression
    type: Type | None = None


@dataclass(frozen=True, kw_only=True)
class Declare:
    """Names without a value; `size` > 0 for an array."""

    names: tuple[tuple[str, int], ...]
    type: Type


@dataclass(frozen=True, kw_only=True)
class If:
    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]


@dataclass(frozen=True, kw_only=True)
class For:
    """A loop that counts `name` from `begin` while it is less than `end`, in steps of `step`."""

    name: str
    begin: Expression
    end: Expression
    step: Expression
    body: tuple["Statement", ...]


@dataclass(frozen=True, kw_only=True)
class While:
    """A loop whose number of rounds its text does not say."""

    condition: Expression
    body: tuple["Statement", ...]


Statement = Assign | Declare | If | For | While


@dataclass(frozen=True, kw_only=True)
class KernelText:
    """`parameters` by name, in order."""

    name: str
    parameters: dict[str, Type]
    body: tuple[Statement, ...]


def read_kernel(source: str, name: str) -> KernelText:
    """The tree of one kernel of a text. Raises ScheduleError for what this reader does not know."""
    match = re.search(rf"(?:__kernel|kernel)\b[^;{{}}]*?\b{re.escape(name)}\s*\(", source)
    if match is None:
        raise ScheduleError(f"{name}: no such kernel in its text")
    return _Reader(name, _tokens(source[match.end() :], name)).kernel()


def _tokens(text: str, name: str) -> list[str]:
    tokens, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ScheduleError(f"{name}: not understood, got {text[place : place + 30]!r}; expected OpenCL C")
        if match.lastgroup:
            tokens.append(match[0])
        place = match.end()
    return tokens


class _Reader:
    def __init__(self, name: str, tokens: Sequence[str]) -> None:
        self._name = name
        self._tokens = tokens
        self._at = 0

    def kernel(self) -> KernelText:
        parameters: dict[str, Type] = {}
        while not self._skip(")"):
            type_ = self._type()
            parameters[self._next()] = type_
            self._skip(",")
        return KernelText(name=self._name, parameters=parameters, body=self._block())

    # --- tokens

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        if self._at > len(self._tokens):
            raise ScheduleError(f"{self._name}: its text ends too early")
        return self._tokens[self._at - 1]

    def _skip(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            near = " ".join(self._tokens[max(0, self._at - 6) : self._at + 1])
            raise ScheduleError(f"{self._name}: not understood near {near!r}; expected {token}")

    def _is_type(self, ahead: int = 0) -> bool:
        return self._peek(ahead) in _QUALIFIERS or bool(_TYPE.match(self._peek(ahead)))

    def _type(self) -> Type:
        found: Type | None = None
        while self._is_type():
            match = _TYPE.match(self._next())
            if match:
                found = Type(scalar=match[1], lanes=int(match[2] or 1))
        found = found or Type(scalar="int")
        while self._peek() == "*" or self._peek() in _QUALIFIERS:
            if self._next() == "*":
                found = Type(scalar=found.scalar, lanes=found.lanes, is_pointer=True)
        return found

    # --- statements

    def _block(self) -> tuple[Statement, ...]:
        if not self._skip("{"):
            return self._statement()
        found: list[Statement] = []
        while not self._skip("}"):
            found += self._statement()
        return tuple(found)

    def _statement(self) -> tuple[Statement, ...]:
        word = self._peek()
        if word == "{":
            return self._block()
        if word == "for":
            return self._for()
        if word in ("if", "while"):
            self._next()
            self._expect("(")
            condition = self._expression()
            self._expect(")")
            body = self._block()
            if word == "while":
                return (While(condition=condition, body=body),)
            return (If(condition=condition, then=body, otherwise=self._block() if self._skip("else") else ()),)
        if self._skip(";"):
            return ()
        if word == "return":
            self._next()
            self._expect(";")
            return ()
        found = self._declaration() if self._is_type() else (self._assignment(),)
        self._expect(";")
        return found

    def _declaration(self) -> tuple[Statement, ...]:
        type_ = self._type()
        bare: list[tuple[str, int]] = []
        found: list[Statement] = []
        while True:
            name = self._next()
            if self._skip("["):
                size = int(self._next().rstrip("uUlL"))
                self._expect("]")
                bare.append((name, size))
            elif self._skip("="):
                target = Expression(kind="name", text=name)
                found.append(Assign(target=target, operator="=", value=self._expression(), type=type_))
            else:
                bare.append((name, 0))
            if not self._skip(","):
                break
        if bare:
            found.insert(0, Declare(names=tuple(bare), type=type_))
        return tuple(found)

    def _assignment(self) -> Assign:
        target = self._expression()
        if self._peek() in _ASSIGNMENTS:
            operator = self._next()
            return Assign(target=target, operator=operator, value=self._expression())
        return Assign(target=None, operator="", value=target)

    def _for(self) -> tuple[Statement, ...]:
        self._next()
        self._expect("(")
        if self._is_type():
            self._type()
        name = self._next()
        self._expect("=")
        begin = self._expression()
        self._expect(";")
        self._expect(name)
        inclusive = self._next()
        if inclusive not in ("<", "<="):
            raise ScheduleError(f"{self._name}: loop over {name} not understood, got {inclusive}; expected < or <=")
        end = self._expression()
        one = Expression(kind="number", text="1")
        if inclusive == "<=":
            end = Expression(kind="binary", text="+", parts=(end, one))
        self._expect(";")
        step = self._step(name, one)
        self._expect(")")
        return (For(name=name, begin=begin, end=end, step=step, body=self._block()),)

    def _step(self, name: str, one: Expression) -> Expression:
        if self._skip("++"):
            self._expect(name)
            return one
        self._expect(name)
        if self._skip("++"):
            return one
        self._expect("+=")
        return self._expression()

    # --- expressions

    def _expression(self) -> Expression:
        condition = self._binary(0)
        if not self._skip("?"):
            return condition
        yes = self._expression()
        self._expect(":")
        return Expression(kind="choice", parts=(condition, yes, self._expression()))

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self._next()
            left = Expression(kind="binary", text=sign, parts=(left, self._binary(level + 1)))
        return left

    def _unary(self) -> Expression:
        if self._peek() in ("-", "+", "!", "~", "*", "&"):
            return Expression(kind="unary", text=self._next(), parts=(self._unary(),))
        if self._peek() == "(" and self._is_type(1):
            self._next()
            type_ = self._type()
            self._expect(")")
            return self._postfix(Expression(kind="cast", type=type_, parts=(self._unary(),)))
        return self._postfix(self._atom())

    def _atom(self) -> Expression:
        if self._skip("("):
            parts = self._list(")")
            return parts[0] if len(parts) == 1 else Expression(kind="list", parts=parts)
        word = self._next()
        if word[0].isdigit() or word[0] == ".":
            return Expression(kind="number", text=word)
        if not (word[0].isalpha() or word[0] == "_"):
            self._at -= 1
            self._expect("an expression")
        return Expression(kind="name", text=word)

    def _postfix(self, e: Expression) -> Expression:
        while True:
            if e.kind == "name" and self._skip("("):
                e = Expression(kind="call", text=e.text, parts=self._list(")"))
            elif self._skip("["):
                (index,) = self._list("]")
                e = Expression(kind="index", parts=(e, index))
            elif self._skip("."):
                e = Expression(kind="member", text=self._next(), parts=(e,))
            else:
                return e

    def _list(self, end: str) -> tuple[Expression, ...]:
        parts: list[Expression] = []
        while not self._skip(end):
            parts.append(self._expression())
            if not self._skip(","):
                self._expect(end)
                break
        return tuple(parts)
