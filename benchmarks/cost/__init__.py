"""Time and memory of Bayesian attention, of sampled predictions and of the training loop."""
