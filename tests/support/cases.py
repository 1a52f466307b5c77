"""Where the shared cases are, for the tests that read them."""

import os
from pathlib import Path
from typing import Final

CASES: Final = Path(
    os.environ.get("HEDDLE_CASES", Path(__file__).parents[2].parent / "shared" / "cases")
)
"""A folder beside the repository; set HEDDLE_CASES when it is somewhere else."""

MISSING: Final = "the shared cases are not here: set HEDDLE_CASES to their folder"
