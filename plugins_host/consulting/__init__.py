"""Policies asked at a seam: who, in which order, and what comes of their answers.

    chain      every middleware that declared a half of a seam, asked in order
    places     the chain, compiled: who is asked where, and how each question begins
    walk       one consultation on its way along it
    consulted  the answer to a frame for several, as it is on the wire
    rows       several consultations one behind the other, while all let things be
    links      who is asked, and what goes with each question
    outcomes   what comes of it, as data

Where policies are asked is the table in `plugins_host.seams`; what they may answer is in
`plugins_host.verdicts`. Modules are imported directly.
"""
