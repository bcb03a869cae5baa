"""Arithmetic is exact where it can be, bounded everywhere, and never evaluates code."""

import ast
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tool import ToolError
from tests.tools.call import call, refused
from tools import calculator


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("6 * 7", "42"),
        ("0.1 + 0.2", "0.3"),
        ("(1.5 + 2) × 3 ^ 2", "31.5"),
        ("2 ** 200", str(2**200)),
        ("7 // 2 + 7 % 4", "6"),
        ("-2 ** 2", "-4"),
        ("2 ** -2", "0.25"),
        ("1 / 3", "0.333333333333333"),
        ("10 / 5", "2"),
        ("2 ** 0.5", "1.4142135623731"),
        ("sqrt(16)", "4"),
        ("factorial(20)", "2432902008176640000"),
        ("round(2.675, 2)", "2.68"),
        ("max(1, 2.5, 2)", "2.5"),
        ("log10(1000)", "3"),
        ("1e3 + 1", "1001"),
        ("（8 + 2）÷ 4", "2.5"),
        ("pi", "3.14159265358979"),
        ("1 ** 999999999999", "1"),
    ],
)
async def test_an_expression_has_its_value(expression: str, result: str) -> None:
    assert (await call(calculator.calculator, expression=expression))["result"] == result


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("1 / 0", "DIVISION_BY_ZERO"),
        ("0 ** -1", "DIVISION_BY_ZERO"),
        ("5 % 0", "DIVISION_BY_ZERO"),
        ("9 ** 9 ** 9", "TOO_LARGE"),
        ("factorial(1001)", "TOO_LARGE"),
        ("factorial(factorial(20))", "TOO_LARGE"),
        ("exp(1000)", "TOO_LARGE"),
        ("1e999", "TOO_LARGE"),
        ("sqrt(-1)", "DOMAIN_ERROR"),
        ("(-8) ** 0.5", "DOMAIN_ERROR"),
        ("factorial(2.5)", "DOMAIN_ERROR"),
        ("log(0)", "DOMAIN_ERROR"),
        ("round()", "DOMAIN_ERROR"),
        ("", "INVALID_EXPRESSION"),
        ("1 +", "INVALID_EXPRESSION"),
        ("two + two", "INVALID_EXPRESSION"),
        ("__import__('os').system('id')", "INVALID_EXPRESSION"),
        ("().__class__", "INVALID_EXPRESSION"),
        ("abs.__name__", "INVALID_EXPRESSION"),
        ("(1, 2)", "INVALID_EXPRESSION"),
        ("1 < 2", "INVALID_EXPRESSION"),
        ("2j", "INVALID_EXPRESSION"),
        ("(" * 300 + "1" + ")" * 199, "INVALID_EXPRESSION"),
        ("1" * 501, "INVALID_EXPRESSION"),
    ],
)
async def test_what_cannot_be_computed_is_refused_by_name(expression: str, code: str) -> None:
    assert (await refused(calculator.calculator, expression=expression)).code == code


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30), st.sampled_from("+-*"))
async def test_whole_numbers_are_exact(left: int, right: int, sign: str) -> None:
    exact = {"+": left + right, "-": left - right, "*": left * right}[sign]
    assert (await call(calculator.calculator, expression=f"({left}) {sign} ({right})"))["result"] == str(exact)


@given(st.text(alphabet="0123456789.+-*/%()e, sqrtlogfai", max_size=60))
async def test_no_text_does_worse_than_a_tool_error(expression: str) -> None:
    try:
        result = (await call(calculator.calculator, expression=expression))["result"]
    except ToolError as error:
        assert error.code.isupper()
    else:
        assert math.isfinite(float(result)) or len(result) > 300


def test_the_expression_is_never_evaluated_by_python() -> None:
    tree = ast.parse(Path(calculator.__file__).read_text("utf-8"))
    assert not {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {"eval", "exec", "compile"}
