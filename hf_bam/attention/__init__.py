"""Stochastic attention: the function that transformers calls, its layers, masks, noise and backends.

May import `families`, `priors`, `objective` and `config`; transformers is imported by `forward` alone.
"""
