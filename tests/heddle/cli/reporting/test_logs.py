import logging

from heddle.cli.reporting.logs import told_to


def test_what_is_logged_is_told_as_a_line_without_its_traceback() -> None:
    told: list[str] = []
    logger = logging.getLogger("test.of.the.command.line")
    with told_to(told.append, tracebacks=False):
        logger.info("nobody needs this")
        logger.warning("mind \x1b[31mthe %s", "gap")
        try:
            raise ValueError("inside")
        except ValueError:
            logger.exception("it broke")
    assert told == ["! mind \\x1b[31mthe gap", "! it broke"]


def test_with_debug_the_traceback_is_told_too() -> None:
    told: list[str] = []
    with told_to(told.append, tracebacks=True):
        try:
            raise ValueError("inside")
        except ValueError:
            logging.getLogger("test.of.the.command.line").exception("it broke")
    (text,) = told
    assert text.startswith("! it broke\n    Traceback")
    assert text.endswith("ValueError: inside")


def test_afterwards_nothing_is_told() -> None:
    handlers = list(logging.getLogger().handlers)
    with told_to(lambda _: None, tracebacks=False):
        assert logging.getLogger().handlers != handlers
    assert logging.getLogger().handlers == handlers
