"""English words of four letters and more that tell nothing of where they came from."""

from __future__ import annotations

from typing import Final

_TEXT: Final = """
about above across after again against almost alone along already also although always among another anyone anything around away
back became because become been before behind being below beneath beside besides between beyond both cannot could does doing done down
during each either else enough ever every everyone everything error except false fewer first found from further gave give given gives
gone hadn hasn have having here hers herself himself however into itself just last later least less like made make makes many
maybe might mine more moreover most much must myself near need needs neither never next nobody none nothing null once only onto other
others otherwise ought ours ourselves over perhaps please quite rather really same shall should since some someone something soon still
such success than that their theirs them themselves then there therefore these they thing things this those though through thus
together too toward towards true under unless until upon very want wants was well went were what whatever when where whereas whether
which while whom whose will with within without would yes yet your yours yourself yourselves
"""
STOP_WORDS: Final = frozenset(_TEXT.split())
