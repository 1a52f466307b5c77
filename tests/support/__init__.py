"""Helpers that several suites and processes of the tests share."""
