"""Sweep over the text models of transformers: each is built tiny, patched, and compared with the plain model."""
