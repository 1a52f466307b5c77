"""heddle: runs agent workflows under an operator's control.

Importing this package costs nothing: the engine, the command line and the plugin SDK
(``heddle.plugin``) are loaded by whoever needs them.
"""

__version__ = "0.1.0"
