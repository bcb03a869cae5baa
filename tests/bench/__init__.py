"""The cost of a step, measured against a raw loop on the same transport. `make bench`; ratios of one run, never seconds."""
