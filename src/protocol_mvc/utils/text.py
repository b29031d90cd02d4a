"""Format untrusted values for messages."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def join_words(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def list_names(names: Sequence[str], max_names: int = 10) -> str:
    """Return "a, b, c, ..." with at most `max_names` names."""
    return ", ".join(names[:max_names]) + (", ..." if len(names) > max_names else "")


def short_repr(value: object, max_length: int = 60) -> str:
    """Return `repr(value)` on one line, cut to `max_length` characters."""
    return sanitize(repr(value), max_length)


def sanitize(text: str, max_length: int = 800) -> str:
    """Return `text` on one line without control characters, cut to `max_length` characters.

    Names inside a data file are untrusted: escape sequences in them could change the user's terminal.
    """
    line = " ".join(text[: 2 * max_length].split())
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return printable if len(printable) <= max_length else f"{printable[:max_length]}..."


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question, or a list of names, to end a message on an unknown name.

    The last component of a known name counts as well: "rounds" is near to "structure__n_rounds". The list
    leaves out the fields of groups, such as this one.
    """
    choices = list(known)
    by_name = {re.split(r"\.|__", choice)[-1]: choice for choice in reversed(choices)}
    by_name |= {choice: choice for choice in choices}
    near = get_close_matches(name, by_name, n=1)
    if near:
        return f": did you mean {by_name[near[0]]!r}?"
    return f": choose from {', '.join(choice for choice in choices if not re.search(r'[.]|__', choice))}"
