"""Checks that the arguments of public methods have the types in their annotations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from types import FunctionType, NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_delta.core.statements.fields import shortened
from airflow_delta.spark.errors import ArgumentError

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])

OptionValue: TypeAlias = str | bool | float
"""The allowed types of a reader or writer option; values are converted to text."""

_DESCRIBED = {str: "a text", bool: "True or False", int: "a whole number", float: "a number", NoneType: "None"}
_SHOWN = (str, bool, int, float, NoneType, list, tuple)


def checks_arguments(owner: _Class) -> _Class:
    """Decorate a class so that each public method checks its arguments with ``takes_only``."""
    for name, member in list(vars(owner).items()):
        if isinstance(member, classmethod) and not name.startswith("_"):
            setattr(owner, name, classmethod(takes_only(member.__func__)))
        elif isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(owner, name, takes_only(member))
    return owner


def takes_only(function: _Function) -> _Function:
    """Decorate a function so that it raises ``ArgumentError`` for arguments of other types than its annotations.

    A string does not count as a list of strings, and True does not count as a number.
    """
    parameters = signature(function)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = parameters.bind(*args, **kwargs).arguments
        except TypeError:  # a missing or unknown argument: the function itself will raise Python's own error
            return function(*args, **kwargs)
        kinds = _kinds(function)
        for parameter, value in given.items():
            for name, one in _each(parameters.parameters[parameter], value):
                check_argument(function.__name__, name, one, kinds.get(parameter, Any))
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]  # it takes and returns what the function does


def _each(parameter: Parameter, value: Any) -> Iterable[tuple[str, Any]]:
    """Name and value of each argument given for a parameter."""
    match parameter.kind:
        case Parameter.VAR_KEYWORD:
            return value.items()
        case Parameter.VAR_POSITIONAL:
            return [(parameter.name, one) for one in value]
        case _:
            return [(parameter.name, value)]


def check_argument(statement: str, name: str, value: Any, kind: Any) -> None:
    """Return if the value has this type, given as an annotation, else raise ``ArgumentError``."""
    if not _is_of(value, kind):
        raise ArgumentError(
            statement=statement, detail=f"expected {name} to be {_described(kind)}, found {_found(value, kind)}"
        )


@cache
def _kinds(function: Any) -> Mapping[str, Any]:
    """The annotations of each parameter, resolved."""
    arguments = FunctionType(function.__code__, function.__globals__)  # return types may only be importable for type checkers
    arguments.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    return get_type_hints(arguments)


def _is_of(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and _wrong_pair(value, kind) is None
    if origin is not None:
        is_list = isinstance(value, origin) and not isinstance(value, str | bytes | Mapping)
        return is_list and (not isinstance(value, Collection) or all(_is_of(part, parts[0]) for part in value))
    return kind is Any or isinstance(value, kind) or _is_session(value, kind)


def _is_session(value: Any, kind: Any) -> bool:
    """Whether a session is expected, and the value is a Spark Connect session, which has a class of its own."""
    return kind.__name__ == "SparkSession" and any(base.__name__ == kind.__name__ for base in type(value).__mro__)


def _wrong_pair(pairs: Mapping[Any, Any], kind: Any) -> tuple[Any, Any] | None:
    of_name, of_value = get_args(kind)
    return next((pair for pair in pairs.items() if not (_is_of(pair[0], of_name) and _is_of(pair[1], of_value))), None)


def _found(value: Any, kind: Any) -> str:
    """The value as the error shows it; values of mappings are hidden, as they may be credentials."""
    mapping = next((part for part in (kind, *get_args(kind)) if _is_mapping(part)), None)
    if mapping is None:
        return shortened(value) if isinstance(value, _SHOWN) else _article(type(value).__name__)
    pair = _wrong_pair(value, mapping) if isinstance(value, Mapping) else None
    return _article(type(value).__name__) if pair is None else f"{pair[0]!r}: {_article(type(pair[1]).__name__)}"


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _described(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_described, parts))
    if _is_mapping(kind):
        return f"a mapping with {_described(parts[0])} for each name and {_described(parts[1])} for each value"
    if origin is not None:
        return f"a list, each of which is {_described(parts[0])}"
    return "anything" if kind is Any else _DESCRIBED.get(kind) or _article(kind.__name__)


def _article(name: str) -> str:
    return name if name == "NoneType" else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
