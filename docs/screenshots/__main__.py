"""Take pictures anew, all or some: ``python -m docs.screenshots [name …]``."""

import sys

from docs.screenshots.picture import picture
from docs.screenshots.scenes import FOLDER, SCENES, showing


def main(names: list[str]) -> None:
    """Write the files."""
    for name in names or SCENES:
        scene = SCENES[name]
        with showing(scene) as screen:
            drawn = picture(screen, scene.command, scene.title)
        (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
