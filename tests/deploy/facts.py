"""All laws, by name."""

from __future__ import annotations

from orchestrator.errors import ConfigError
from tests.deploy import laws, wiring
from tests.deploy.laws import Law
from tests.deploy.tree import Tree

LAWS: tuple[Law, ...] = (
    laws.settings_are_read,
    laws.variables_exist,
    laws.compose_variables_are_given,
    laws.commands_exist,
    laws.metrics_exist,
    laws.labels_exist,
    laws.rules_are_generated,
    laws.grace_is_granted,
    laws.paths_exist,
    laws.dashboards_are_mounted,
    laws.published_on_loopback,
    wiring.ports_agree,
    wiring.addresses_agree,
    wiring.names_are_resolved,
    wiring.services_offer_the_port,
    wiring.images_are_pinned,
    wiring.containers_are_confined,
    wiring.workers_are_enough,
)


def problems(tree: Tree) -> list[str]:
    """What is wrong, over all laws. A file that cannot even be read in the expected shape is one problem."""
    found: list[str] = []
    for law in LAWS:
        try:
            found += [f"{law.__name__}: {each}" for each in law(tree)]
        except (KeyError, ValueError, TypeError, AssertionError, OSError, ConfigError, StopIteration) as error:
            found.append(f"{law.__name__}: {type(error).__name__}: {error}")
    return found
