"""User functions as source text, the form in which they are sent to Spark's driver.

Not as a pickle: that would be bytecode, which another minor version of Python cannot run, together with whatever it refers to
in Airflow's process, and loading a pickle runs arbitrary code unseen. Source text can be read and has a stable digest, and
tracebacks show the lines of its file. The price: a function must contain everything it uses, so imports and helpers go inside
it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from airflow_delta.core.errors import InvalidStatementError

SESSION = "spark"
"""The first parameter of every function: the Spark session."""

_KNOWN = frozenset({*dir(builtins), "__name__", "__file__", "__annotations__", "__conditional_annotations__"})
"""Names that need no definition; class bodies with annotated members use the last two."""

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_NAME"})
_LAMBDA = (lambda: None).__name__
_NOT_RETURNING = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_INDENTED = "if True:\n"
"""Put before the source of a nested function: removing its indentation instead would change multi-line texts in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionText:
    """The source of a function, from ``def`` on, without decorators.

    Attributes:
        file: Path of the file where the function was read.
        line: Line number of its ``def`` in that file.
    """

    name: str
    text: str
    file: str
    line: int

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionText:
        """The source of a function.

        Raises:
            InvalidStatementError: It has no source of its own (a builtin, a lambda), or uses names defined outside of it.
        """
        name = getattr(function, "__name__", repr(function))
        is_plain = inspect.isfunction(function) and not hasattr(function, "__wrapped__")
        if not is_plain or name == _LAMBDA or function.__code__.co_flags & _NOT_RETURNING:
            raise _invalid(
                name,
                "expected a function of its own def: no lambda, method, coroutine, generator, and none that a decorator wraps",
            )
        try:
            lines, first = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function) or ""
        except (OSError, TypeError) as error:
            raise _invalid(name, f"its source cannot be read ({error}); name it as 'module:function'") from error
        definition, before = _definition(name, "".join(lines))
        start, end = definition.lineno - before, definition.end_lineno or definition.lineno
        found = cls(name=name, text="".join(lines[start - 1 : end - before]), file=file, line=first + start - 1)
        if outside := sorted(set(_names_from_outside(found.compiled()))):
            raise _invalid(
                name,
                f"at {file}:{found.line} it uses {', '.join(outside)} from outside, and travels without its file: import and "
                "define within the function, pass values as arguments, or name it as 'module:function'",
            )
        return found

    def compiled(self) -> CodeType:
        """Module code that defines the function, with the line numbers of its file; parameter annotations are ignored.

        Raises:
            InvalidStatementError: The text is not a function that this version of Python can compile.
        """
        definition, before = _definition(self.name, self.text)
        parameters = definition.args
        for parameter in (
            *parameters.posonlyargs,
            *parameters.args,
            *parameters.kwonlyargs,
            parameters.vararg,
            parameters.kwarg,
        ):
            if parameter is not None:
                parameter.annotation = None
        definition.decorator_list, definition.returns = [], None
        module = ast.Module([ast.increment_lineno(definition, self.line - 1 - before)], type_ignores=[])
        return compile(module, self.file or f"<{self.name}>", "exec", dont_inherit=True)


def check_parameters(function: Callable[..., Any]) -> None:
    """Return if the first parameter is the session and all others are named, else raise ``InvalidStatementError``."""
    parameters = list(inspect.signature(function).parameters.values())
    first = parameters[0] if parameters else None
    if first is None or first.name != SESSION or first.kind in (first.KEYWORD_ONLY, first.VAR_POSITIONAL, first.VAR_KEYWORD):
        found = "none" if first is None else str(first)
        raise _invalid(function.__name__, f"expected {SESSION}, the Spark session, as its first parameter, found {found}")
    by_place = [other.name for other in parameters[1:] if other.kind in (other.POSITIONAL_ONLY, other.VAR_POSITIONAL)]
    if by_place:
        raise _invalid(function.__name__, f"arguments are passed by name, which {', '.join(by_place)} cannot be")


def check_call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Return if the function can be called with a session and these arguments.

    Raises:
        InvalidStatementError: An argument is missing or unexpected; or as ``check_parameters`` raises it.
    """
    check_parameters(function)
    try:
        inspect.signature(function).bind(None, **arguments)
    except TypeError as error:
        raise _invalid(function.__name__, str(error)) from error


def _definition(name: str, text: str) -> tuple[ast.FunctionDef, int]:
    """The function in a text, and the number of lines put before the text so that it parses."""
    before = _INDENTED if text[:1].isspace() else ""
    try:
        tree = ast.parse(before + text)
    except SyntaxError as error:
        raise _invalid(name, f"its text cannot be parsed: {error}") from error
    body = tree.body[0].body if before and isinstance(tree.body[0], ast.If) else tree.body
    definition = body[0] if body else None
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        raise _invalid(name, "expected its text to be a def of this name")
    return definition, before.count("\n")


def _names_from_outside(code: CodeType) -> Iterator[str]:
    """The global names that the code uses, but that neither the code nor Python defines."""
    codes = list(_codes(code))
    instructions = {body: list(dis.get_instructions(body)) for body in codes}
    defined = {
        found.argval
        for body in codes
        for found in instructions[body]
        if found.opname == "STORE_GLOBAL" or (body is code and found.opname == "STORE_NAME")
    }
    for body in codes:
        own = {found.argval for found in instructions[body] if found.opname in _STORES}
        for found in instructions[body]:
            if found.opname in _LOADS and found.argval not in _KNOWN | defined | own:
                yield found.argval


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _invalid(name: str, detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement=f"the function {name}", detail=detail)
