"""The pure core: stdlib and core only; no await, no clock, no random, no logging."""
