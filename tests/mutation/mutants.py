"""Mutants of a source by the operators of cosmic-ray, and how a loaded module gets one."""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from types import FunctionType, ModuleType

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

# Replacements of operators, except those that the same tests catch anyway.
ORDERS = ("Lt", "LtE", "Gt", "GtE")
CHANGES = {
    "",
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Mul", "BitAnd_BitOr"),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "In_NotIn", "NotIn_In", "Delete_USub", "Delete_Not"),
    *(f"{one}_{other}" for one in ORDERS for other in ORDERS),
}
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def mutants(source: str) -> Iterator[str]:
    """Yield the source with one change, for every change that is valid Python of another meaning."""
    seen = {_meaning(source), None}
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if kind.arguments() or name.partition("_")[2] not in CHANGES:
            continue
        places = [place for node in ast_nodes(get_ast(source)) for place in kind().mutation_positions(node)]
        for occurrence in range(len(places)):
            mutant = mutate_code(source, kind(), occurrence)
            if _meaning(mutant) not in seen:
                seen.add(_meaning(mutant))
                yield mutant


def _meaning(source: str) -> str | None:
    """Return the syntax tree without types and without the star before keywords; None if it is not valid."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):  # a mutant replaces the star by a slash
            node.posonlyargs, node.args = [], [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
            node.kwonlyargs, node.kw_defaults = [], []
        vars(node).update(annotation=None, returns=None)
    return ast.dump(tree)


def describe(source: str, mutant: str) -> tuple[int, str]:
    """Return the line of a change, and the changed function or constant with the tokens before and after.

    The description, such as ``"solve: < -> <="``, does not depend on comments and on names of variables.
    """
    old, new = _tokens(source), _tokens(mutant)
    first = next(i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0].string != pair[1].string)
    tail = 0
    while tail < min(len(old), len(new)) - first and old[-1 - tail].string == new[-1 - tail].string:
        tail += 1
    before, after = (" ".join(t.string for t in part[first : len(part) - tail]) for part in (old, new))
    line = old[first].start[0]
    return line, f"{_place(ast.parse(source), line)}: {before} -> {after}"


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    return [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in LAYOUT]


def _place(tree: ast.Module | ast.ClassDef, line: int) -> str:
    """Return the dotted name of the function, class or constant that is defined on a line."""
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        if not min([node.lineno, *(d.lineno for d in decorators)]) <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.ClassDef) and any(part.lineno <= line for part in node.body):
            return f"{node.name}.{_place(node, line)}"
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            return node.name
        return ast.unparse(node).partition(" = ")[0]
    return "module"


def graft(module: ModuleType, source: str) -> None:
    """Change the functions, classes and constants of a module in place, for all who have imported them."""
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
        else:  # made by a decorator
            setattr(old, name, value)


def _graft_code(old: FunctionType, new: FunctionType) -> None:
    if old.__code__ != new.__code__:
        old.__code__ = new.__code__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
