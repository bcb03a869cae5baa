"""The alert rules as PromQL fragments: a board shows the very figure that its alert is about."""

from __future__ import annotations

from orchestrator.alerts import Rule, Selector, load_rules

RULES: dict[str, Rule] = {rule.name: rule for rule in load_rules()}


def window(rule: Rule) -> str:
    """The rule's window as Prometheus writes it: `15m`, `1h`."""
    minutes = round(rule.window / 60)
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def select(selector: Selector, suffix: str = "") -> str:
    """The samples of a selector, of the agents that the board is set to."""
    pairs = [f'{label}=~"{"|".join(values)}"' for label, values in selector.where]
    return f"{selector.metric}{suffix}{{{', '.join([*pairs, AGENT])}}}"


AGENT = 'agent=~"$agent"'


def ratio(rule: Rule, by: str = "") -> str:
    """A ratio's value now; 0 where there is something under the line and nothing over it, nothing where there is nothing."""
    if rule.under is None:
        raise ValueError(f"{rule.name} is no ratio")
    per, over, under = _by(by), select(rule.over), select(rule.under)
    whole = f"sum{per}(increase({under}[{window(rule)}]))"
    return f"(sum{per}(increase({over}[{window(rule)}])) or {whole} * 0) / ({whole} > 0)"


def mean(rule: Rule, by: str = "") -> str:
    """A mean's value now."""
    per = _by(by)
    return (
        f"sum{per}(increase({select(rule.over, '_sum')}[{window(rule)}]))"
        f" / (sum{per}(increase({select(rule.over, '_count')}[{window(rule)}])) > 0)"
    )


def _by(by: str) -> str:
    return f" by ({by}) " if by else ""
