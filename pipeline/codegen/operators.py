"""TIR's operators in OpenCL C: signs with their precedence, built-in functions."""

from tvm.ir.prim import expr as ir

# Levels of precedence, the tightest first.
ATOM, UNARY, TIMES, PLUS, SHIFT, COMPARE, BIT, LOGIC = range(8)

INFIX = {
    ir.Add: ("+", PLUS),
    ir.Sub: ("-", PLUS),
    ir.Mul: ("*", TIMES),
    ir.Div: ("/", TIMES),
    ir.Mod: ("%", TIMES),
    ir.LShift: ("<<", SHIFT),
    ir.RShift: (">>", SHIFT),
    ir.BitwiseAnd: ("&", BIT),
    ir.BitwiseOr: ("|", BIT),
    ir.BitwiseXor: ("^", BIT),
    ir.EQ: ("==", COMPARE),
    ir.NE: ("!=", COMPARE),
    ir.LT: ("<", COMPARE),
    ir.LE: ("<=", COMPARE),
    ir.GT: (">", COMPARE),
    ir.GE: (">=", COMPARE),
    ir.And: ("&&", LOGIC),
    ir.Or: ("||", LOGIC),
}
INFIX_CALLS = {
    "shift_left": ir.LShift,
    "shift_right": ir.RShift,
    "bitwise_and": ir.BitwiseAnd,
    "bitwise_or": ir.BitwiseOr,
    "bitwise_xor": ir.BitwiseXor,
}
COMPARISONS = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or, ir.Not)
_SAME_NAME = """
exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 pow
fabs fmod hypot copysign nextafter ldexp erf fma isnan isinf isfinite rint expm1 floor ceil trunc round popcount clz
"""
# TIR name -> OpenCL built-in
BUILTINS = {"abs": "fabs", "nearbyint": "rint", **{n: n for n in _SAME_NAME.split()}}
MASKING = ("isnan", "isinf", "isfinite")
