"""Sources with one mistake each (those of cosmic-ray), and how a running module gets one."""

import ast
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

# Of the many replacements of an operator those that are not caught by the same tests anyway.
ORDERS = ("Lt", "LtE", "Gt", "GtE")
CHANGES = {"", "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Mul", "BitAnd_BitOr"}
CHANGES |= {
    "Eq_NotEq",
    "NotEq_Eq",
    "Is_IsNot",
    "IsNot_Is",
    "In_NotIn",
    "NotIn_In",
    "Delete_USub",
    "Delete_Not",
}
CHANGES |= {f"{one}_{other}" for one in ORDERS for other in ORDERS}


def mutants(source: str) -> Iterator[str]:
    """The source with one change, again and again, if that means something else and is Python."""
    seen = {meaning(source), None}
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if kind.arguments() or name.partition("_")[2] not in CHANGES:
            continue
        places = [place for node in ast_nodes(get_ast(source)) for place in kind().mutation_positions(node)]
        for occurrence in range(len(places)):
            mutant = mutate_code(source, kind(), occurrence)
            if meaning(mutant) not in seen:
                seen.add(meaning(mutant))
                yield mutant


def meaning(source: str) -> str | None:
    """The syntax tree without types and the star before keywords; nothing if there is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):  # of the star a mutant makes a slash
            node.posonlyargs, node.args = [], [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
            node.kwonlyargs, node.kw_defaults = [], []
        vars(node).update(annotation=None, returns=None)
    return ast.dump(tree)


def difference(source: str, mutant: str) -> str:
    """The number of the first line that differs, and what it became."""
    lines = zip(source.splitlines(), mutant.splitlines(), strict=False)
    return next(f"{i}: {' '.join(new.split())}" for i, (old, new) in enumerate(lines, 1) if old != new)


def graft(module: ModuleType, source: str) -> None:
    """Give a module another source in place: whoever holds a part of it has the new one."""
    fresh = dict(vars(module))
    exec(compile(source, str(module.__file__), "exec"), fresh)
    for name, new in fresh.items():
        old = vars(module).get(name)
        if isinstance(old, type) and old.__module__ == module.__name__:
            _graft_members(old, new)
        elif isinstance(old, FunctionType) and old.__module__ == module.__name__:
            _graft_code(old, new)
        elif isinstance(old, int | float) and new != old:
            for holder in [m for m in [module, *sys.modules.values()] if vars(m).get(name) is old]:
                setattr(holder, name, new)


def _graft_members(old: type, new: type) -> None:
    for name in set(vars(old)) - set(vars(new)):
        delattr(old, name)
    for name, value in vars(new).items():
        have = vars(old).get(name)
        if isinstance(have, property) and isinstance(value, property):
            have, value = have.fget, value.fget
        if not isinstance(have, FunctionType) or not isinstance(value, FunctionType):
            if type(have) is not type(value):
                setattr(old, name, value)
        elif have.__code__.co_freevars == value.__code__.co_freevars:
            _graft_code(have, value)
        else:  # what a decorator made
            setattr(old, name, value)


def _graft_code(old: FunctionType, new: FunctionType) -> None:
    if old.__code__ != new.__code__:
        old.__code__ = new.__code__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
