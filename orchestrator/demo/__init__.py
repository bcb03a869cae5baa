"""A demonstration that needs no key and no network: a loopback server that speaks like a model and is none.

Rules of a few hundred lines answer questions over the shipped knowledge bases, and misbehave on request. It serves first
runs, tests and load; nothing here is a language model, and every reply says so in the header `x-demo-model`.
"""
