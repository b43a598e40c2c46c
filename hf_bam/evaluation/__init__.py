"""Evaluation of predictions: metrics, temperature scaling, comparison of methods, tables, plots and the HTML report.

Functions take samples (S, B, C) and labels (B,), or a predictor that returns them. May import nothing else of hf_bam.
Plots and the report need the extra `plots`, so this file imports neither.
"""
