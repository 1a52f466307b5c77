"""Plugins for tests of what heddle makes of them."""
