"""What heddle is made of beside its own code, and what must not be in that.

test_locks.py    what is installed: pinned, hashed, declared, under licences that go along
secrets.py       ``make secrets``: no key and no password in any file
audit.py         ``make audit``: what is known to be wrong with what is installed
"""
