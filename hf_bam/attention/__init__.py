"""Stochastic attention: the function that transformers calls, its four stages, layers, masks, noise and backends.

May import `families`, `priors`, `objective` and `config`. transformers is imported by `interface` alone.
"""
