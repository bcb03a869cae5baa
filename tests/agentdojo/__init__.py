"""AgentDojo (v1.2) against the default policy: its suites' tools through our toolbox, its injections, its own checkers, no model."""
