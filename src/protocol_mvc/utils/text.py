"""Values and names of strangers in messages: one printable line each, and not too long."""


def short_repr(value: object, most: int = 60) -> str:
    """Return a value as it is written in Python, cut after so many characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, and lists without a bottom
        text = f"a huge {type(value).__name__}"
    return sanitize(text, most)


def sanitize(text: str, most: int = 800) -> str:
    """Return a text on one line, cut after so many characters, in which nothing can command a terminal."""
    plain = " ".join(text[: 2 * most].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)
    return shown if len(shown) <= most else f"{shown[:most]}..."
