"""Everything that judges predictions: metrics, the comparison of methods, its tables, plots and report, temperatures.

It takes samples (S, B, C) and labels (B,), or whatever predicts them, and imports no other room of the
package. Plots and the report need the extra `plots`, which is why nothing is imported here.
"""
