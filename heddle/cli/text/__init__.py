"""Text of models, tools and people, made fit for a terminal. Knows no runs.

    wording         one line, with nothing in it that a terminal would obey
    wrapping        broken between words
    markdown        Markdown as rows; `markdown_lines`: their words, wrapped
    as_written      what is too long to be read as Markdown
    streamed        one text as it comes: rows that stay, and rows that may change

Modules are imported directly.
"""
