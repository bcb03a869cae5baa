"""English words that make poor tool names: in a Thought they are words first (health metrics, "common word")."""

from __future__ import annotations

import re

_TEXT = """
add answer append apply approve archive ask audit back backup bill book build buy calculate calculator calendar
call cancel chart chat check clean clear click clock close code collect command compare compute confirm contact
convert copy count create date debug delete deploy diff download draft draw edit email evaluate event execute
export extract fetch file filter find fix flight format forecast forward get go grep help history hotel image
import insert inspect invoice issue join knowledge list load locate log login lookup mail map math measure
memory merge message move navigate news note notify now open order parse patch pay payment plan play plot post
price print process product publish pull purchase push put python query quote rate read refund register remember
remove rename render repeat reply report request reserve reset resolve restart retrieve return review route run
save scan schedule score scrape search select sell send set share shell ship show shop solve sort split sql
start status stock stop store submit subscribe sum summarize sync table tag task test think ticket time total
track trade transfer translate transform type undo update upload use user validate verify view visit vote wait
weather web wiki write
"""
COMMON = frozenset(re.findall(r"\w+", _TEXT))
