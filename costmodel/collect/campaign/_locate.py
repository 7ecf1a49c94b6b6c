"""Campaigns by object, by path, or by the name of one that ships."""

import difflib
from pathlib import Path

from costmodel.collect.campaign._config import CampaignConfig
from costmodel.errors import CostModelError


def find_campaign(campaign: CampaignConfig | Path | str) -> CampaignConfig:
    """A campaign that is sound.

    Campaigns that ship lie inside an installed package, and under ``configs/`` of a source checkout. What
    lies at a path wins over a campaign that ships under the same name.

    Args:
        campaign: A campaign, the path of its file, or the name of one that ships, such as ``cpu-quick``.

    Raises:
        CostModelError: There is none, or it is not sound; see ``CampaignConfig``.
    """
    if isinstance(campaign, CampaignConfig):
        campaign.check()
        return campaign
    path = Path(campaign)
    shipped = _shipped()
    if path.exists() or path.suffix or len(path.parts) > 1:
        return CampaignConfig.load(path)
    if path.name in shipped:
        return CampaignConfig.load(shipped[path.name])
    near = difflib.get_close_matches(path.name, shipped, n=1)
    raise CostModelError(
        f"A campaign must be a file, or the name of one that ships ({', '.join(sorted(shipped))}), but got "
        f"{path.name!r}." + (f" Did you mean {near[0]}?" if near else "")
    )


def _shipped() -> dict[str, Path]:
    """Files by name; those of evaluations lie beside them."""
    package = Path(__file__).parents[2]
    for folder in (package / "_configs", package.parent / "configs"):
        if folder.is_dir():
            files = sorted(folder.glob("*.toml"))
            return {file.stem: file for file in files if not file.stem.startswith("evaluate-")}
    return {}
