"""Accuracy and uncertainty of trained models: the study on real tasks, and smaller experiments."""
