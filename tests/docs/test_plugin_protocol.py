"""docs/plugins/protocol.md: its plugin runs, and its tables have what the code has."""

import re
from pathlib import Path

from plugins_host.checking.check import Finding, Outcome, check_plugin
from plugins_host.loading.installed import OutOfProcess
from plugins_host.loading.load import load_plugins
from plugins_host.manifests.manifest import Capability
from plugins_host.seams import ACTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "plugins" / "protocol.md").read_text()


def fence(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


async def test_the_plugin_on_the_page_has_no_faults(tmp_path: Path) -> None:
    (tmp_path / "word-gate.json").write_text(fence("json"))
    (tmp_path / "word-gate").write_text(fence("sh"))
    (tmp_path / "word-gate").chmod(0o755)
    loaded = load_plugins([str(tmp_path / "word-gate.json")])
    found: list[Finding] = []

    home = loaded.plugins[0].home
    assert isinstance(home, OutOfProcess)
    assert home.program is not None
    assert [Path(each).name for each in home.program.argv] == ["word-gate"]
    assert await check_plugin(loaded, found.append)
    assert {each.outcome for each in found} == {Outcome.OK}
    assert len(found) > 4


def test_every_verdict_and_every_capability_is_on_the_page() -> None:
    assert all(f'{{"action": "{action}"' in PAGE for action in ACTIONS)
    assert all(f"| `{capability}` | `call`" in PAGE for capability in Capability)
