"""Hundreds of runs at once on shared policies, disturbed at random: `tests.pressure.crowd`.

python -m tests.pressure [--seconds 30] [--seed N] [--at-once 500]
"""
