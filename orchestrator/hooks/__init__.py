"""Alert hooks: a WeCom robot, Slack and its like, a signed webhook in Alertmanager's shape, PagerDuty, a local command.

`hook.py` puts them behind the policies; each dialect is a pure file of its own; `adapter.py` lets Alertmanager reach a robot.
"""

from orchestrator.hooks.hook import Hook, make_hook, make_hooks

__all__ = ["Hook", "make_hook", "make_hooks"]
