"""What programs build on is written down, so that nobody changes it without meaning to.

``api.txt`` has a line for each public name, with its signature. Write it anew by ``USWAP_UPDATE_API=1 pytest``, and say
in CHANGELOG.md what changes for programs.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import uswap
from uswap import _native

LIST = Path(__file__).with_name("api.txt")
# Where the sources are. The package that is tested is an installed one.
STUB = Path(__file__).parents[1] / "uswap" / "_native.pyi"

# Public by their names, and not listed in `__all__`: what IPython calls, and what `from __future__` and typing leave.
OTHERS = {"load_ipython_extension", "annotations", "TYPE_CHECKING"}


def lines_of_class(name: str, kind: type) -> Iterator[str]:
    """A line for a class and its parents, and one for each member of its own."""
    yield f"class {name}({', '.join(base.__name__ for base in kind.__bases__)})"
    if dataclasses.is_dataclass(kind):
        yield from (f"{name}.{field.name}: {field.type}" for field in dataclasses.fields(kind))
    for member, value in vars(kind).items():
        is_special = member in ("__enter__", "__exit__")
        if inspect.isfunction(value) and (is_special or not member.startswith("_")):
            yield f"def {name}.{member}{inspect.signature(value)}"


def lines() -> Iterator[str]:
    """All that is public."""
    for name in [*uswap.__all__, "load_ipython_extension"]:
        value = getattr(uswap, name)
        if inspect.isclass(value):
            yield from lines_of_class(name, value)
        elif inspect.isfunction(value):
            yield f"def {name}{inspect.signature(value)}"
        else:
            yield f"{name}: {type(value).__name__}"


def test_what_programs_build_on_is_as_it_was() -> None:
    text = "".join(f"{line}\n" for line in lines())
    if os.environ.get("USWAP_UPDATE_API"):
        LIST.write_text(text, encoding="utf-8")
    written, there = LIST.read_text(encoding="utf-8").splitlines(), text.splitlines()
    gone = [f"- {line}" for line in written if line not in there]
    new = [f"+ {line}" for line in there if line not in written]
    assert written == there, "\n".join(
        [
            "the public names are not those of python/tests/api.txt:",
            *gone,
            *new,
            "If that is meant: USWAP_UPDATE_API=1 pytest python/tests/test_api.py, and a line in CHANGELOG.md.",
        ]
    )


def test_nothing_is_public_by_accident() -> None:
    assert sorted(uswap.__all__) == list(uswap.__all__)
    modules = {name for name, value in vars(uswap).items() if isinstance(value, ModuleType)}
    public = {name for name in dir(uswap) if not name.startswith("_")} - modules
    assert public - OTHERS == {name for name in uswap.__all__ if name != "__version__"}


def parameters_of_stub(function: ast.FunctionDef) -> list[str]:
    """The names of the parameters, with a star where those begin that are given by name."""
    arguments = function.args
    by_name = [argument.arg for argument in arguments.kwonlyargs]
    return [argument.arg for argument in arguments.args] + (["*", *by_name] if by_name else [])


def parameters_of(function: object) -> list[str]:
    """The same of a function that is there."""
    assert callable(function)
    parameters = list(inspect.signature(function).parameters.values())
    by_name = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    others = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    return others + (["*", *by_name] if by_name else [])


def test_the_native_part_is_as_its_stub_says() -> None:
    stub = ast.parse(STUB.read_text(encoding="utf-8")).body
    functions = {item.name: parameters_of_stub(item) for item in stub if isinstance(item, ast.FunctionDef)}
    values = {item.target.id for item in stub if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)}
    public = {name for name in dir(_native) if not name.startswith("_")} | {"__version__"}
    assert public == functions.keys() | values
    assert {name: parameters_of(getattr(_native, name)) for name in functions} == functions
