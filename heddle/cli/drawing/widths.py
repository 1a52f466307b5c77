"""How wide text is on a terminal, and text made to fit a width."""

from rich.cells import cell_len, chop_cells, set_cell_size

from heddle.cli.text.wording import line


def cells(text: str) -> int:
    """How many cells of a terminal it takes."""
    return cell_len(text)


def cut(text: str, most: int) -> str:
    """One line of at most ``most`` cells, fit for a terminal; ``…`` where it is cut."""
    # Zero-width characters in a row would make a long text of no cells.
    one = line(text, most=8 * most + 8)
    if cell_len(one) <= most:
        return one
    return set_cell_size(one, most - 1).rstrip() + "…"


def wrapped(text: str, most: int, *, lines: int, indent: str = "  ") -> list[str]:
    """Lines of at most ``most`` cells, broken between words where that is possible.

    The lines after the first begin with ``indent``; the last says when there was more.
    """
    found: list[str] = []
    current = ""
    for word in line(text, most=most * lines * 2 + 8).split(" "):
        for piece in chop_cells(word, most - len(indent)) if word else ("",):
            joined = f"{current} {piece}" if current.strip() else current + piece
            if current.strip() and cell_len(joined) > most:
                found.append(current)
                current = indent + piece
            else:
                current = joined
    found.append(current)
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], cut(f"{found[lines - 1]} …", most)]
