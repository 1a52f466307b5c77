"""How choices are told: a guess for a typo, else those that a person reads."""

from plugins_host import nearest, one_of


def test_a_typo_gets_a_guess_and_anything_else_the_choices() -> None:
    assert one_of("Retry", ["retry", "fail"]) == "Did you mean 'retry'?"
    assert one_of("zzz", ["retry", "fail"]) == "Choose from: retry, fail."
    assert one_of("zzz", []) == "There is none to choose from."


def test_of_very_many_choices_some_are_listed() -> None:
    many = [f"{n:04}" for n in range(2000)]
    told = one_of("zzz", many)
    assert told.startswith("Choose from: 0000, 0001, ")
    assert told.endswith(", 0039 and 1960 more.")


def test_a_name_is_compared_with_so_many_and_no_more() -> None:
    many = [f"{n:04}" for n in range(1000)]
    assert nearest("misspelt", [*many[:-1], "mispelt"]) == "mispelt"
    assert nearest("misspelt", [*many, "mispelt"]) is None


def test_letters_in_another_order_are_a_typo_however_short_the_name_is() -> None:
    assert nearest("rnu", ["run", "graph"]) == "run"
    assert nearest("TWO", ["tow"]) == "tow"
    assert nearest("ab", ["ba"]) is None
    assert nearest("nur", ["ran"]) is None
