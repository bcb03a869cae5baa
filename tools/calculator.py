"""Arithmetic, exact where it can be. No `eval`: the expression is parsed, and only a closed list of nodes is computed.

Whole numbers and decimals are fractions, so 0.1 + 0.2 is 0.3 and 2 ** 200 has all its digits. Functions that leave the
fractions (sqrt, sin, log ...) give 15 significant digits. Powers and factorials have bounds: no input can stall the worker.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from orchestrator.tool import ToolError, tool

LONGEST = 500
MOST_BITS = 8192
LARGEST_FACTORIAL = 1000
DIGITS = 15

ALLOWED = re.compile(r"[0-9A-Za-z_.,+\-*/%() ]*\Z")
SPELLINGS = str.maketrans(
    {"×": "*", "÷": "/", "−": "-", "–": "-", "（": "(", "）": ")", "，": ",", "^": "**", "\n": " ", "\t": " "}
)
CONSTANTS = {"pi": Fraction(math.pi), "e": Fraction(math.e), "tau": Fraction(math.tau)}
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@tool(repeatable=True, timeout=5.0, aliases=("计算器",))
def calculator(expression: str) -> dict[str, Any]:
    """Compute an arithmetic expression, e.g. `(1.5 + 2) * 3 ** 2` or `sqrt(2) / 4`.

    Operators + - * / // % ** (or ^); functions sqrt, abs, round, floor, ceil, min, max, log, log2, log10, exp, sin, cos,
    tan, factorial; constants pi, e. 计算算术表达式。
    """
    text = expression.translate(SPELLINGS).strip()
    if not text or len(text) > LONGEST:
        raise ToolError("INVALID_EXPRESSION", f"write an expression of 1 to {LONGEST} characters")
    if not ALLOWED.match(text):
        raise ToolError(
            "INVALID_EXPRESSION", "only numbers, + - * / // % ** ( ) , and the listed functions are understood"
        )
    try:
        value = evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ToolError("INVALID_EXPRESSION", f"this is no expression: {text[:80]}") from error
    except ZeroDivisionError as error:
        raise ToolError("DIVISION_BY_ZERO", f"a divisor is zero in {text[:80]}") from error
    except OverflowError as error:
        raise ToolError("TOO_LARGE", "the result is too large") from error
    except (ValueError, TypeError) as error:
        raise ToolError("DOMAIN_ERROR", f"a function is not defined for its argument: {error}") from error
    return {"expression": expression.strip(), "result": show(value)}


def evaluate(node: ast.expr) -> Fraction:
    """Compute one node; the tree is no deeper than the expression is long."""
    match node:
        case ast.Constant(value=bool() | complex()):
            pass
        case ast.Constant(value=int() | float() as number):
            return bounded(Fraction(repr(number)) if math.isfinite(number) else Fraction(number))
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return evaluate(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return power(evaluate(left), evaluate(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return bounded(Fraction(OPERATORS[type(op)](evaluate(left), evaluate(right))))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return bounded(Fraction(FUNCTIONS[name](*map(evaluate, args))))
    raise ToolError("INVALID_EXPRESSION", f"not allowed here: {ast.unparse(node)[:80]}")


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """A whole exponent is exact as long as the result fits; any other is a float."""
    if exponent.denominator != 1:
        return Fraction(math.pow(base, exponent))
    if abs(base.numerator) in (0, 1) and base.denominator == 1:
        return base ** int(exponent) if base or exponent >= 0 else base**-1
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent) > MOST_BITS:
        raise ToolError("TOO_LARGE", f"a power may have up to {MOST_BITS} bits")
    return base ** int(exponent)


def factorial(number: Fraction) -> int:
    """Whole numbers up to the bound only."""
    if number.denominator != 1 or number < 0:
        raise ValueError("factorial needs a whole number from 0")
    if number > LARGEST_FACTORIAL:
        raise ToolError("TOO_LARGE", f"factorial is computed up to {LARGEST_FACTORIAL}")
    return math.factorial(int(number))


def bounded(number: Fraction) -> Fraction:
    """Refuse intermediate results that have grown past all use."""
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > 2 * MOST_BITS:
        raise ToolError("TOO_LARGE", f"numbers may have up to {2 * MOST_BITS} bits")
    return number


def rounded(number: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    """Round half to even, at a whole number of decimal places."""
    return Fraction(round(number, int(places))) if abs(places) <= 50 else number


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "round": rounded, "floor": math.floor, "ceil": math.ceil, "min": min, "max": max, "factorial": factorial,
    "sqrt": math.sqrt, "log": math.log, "ln": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
}  # fmt: skip


def show(number: Fraction) -> str:
    """Whole numbers with all digits, others with 15 significant ones."""
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.{DIGITS}g}"
