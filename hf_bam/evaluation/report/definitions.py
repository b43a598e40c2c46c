"""Names, directions and definitions of the measures of a report."""

from __future__ import annotations

LOWER_IS_BETTER = frozenset(
    {"nll", "ece", "mce", "brier", "aurc", "e_aurc", "fpr95", "set_size", "seconds", "loss", "rmse", "crps", "ter"}
)
"""Measures of which less is better; of all others more is."""
NOT_RANKED = frozenset({"epistemic", "entropy", "set_coverage", "coverage_90", "passes"})
"""Measures that are neither better nor worse."""
NAMES = {
    "nll": "NLL",
    "ece": "ECE",
    "mce": "MCE",
    "brier": "Brier",
    "aurc": "AURC",
    "e_aurc": "E-AURC",
    "fpr95": "FPR95",
    "pavpu": "PAvPU",
    "error_auroc": "error AUROC",
    "error_aupr": "error AUPR",
    "ood_auroc": "out-of-distribution AUROC by entropy",
    "novelty_auroc": "out-of-distribution AUROC by novelty",
    "error_spearman": "error rank correlation",
    "coverage_90": "coverage of 90 % intervals",
    "rmse": "RMSE",
    "crps": "CRPS",
    "f1": "F1",
    "exact": "exact match",
    "exact_match": "exact match",
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
"""Headers of measures, where they are not the name itself."""
DEFINITIONS = {
    "accuracy": "Share of correct predictions.",
    "nll": "Negative log-likelihood of the true labels, in nats.",
    "brier": "Squared distance between the probabilities and the true label, mean over the inputs.",
    "ece": "Expected calibration error: mean gap between confidence and accuracy over 15 bins.",
    "error_auroc": "Probability that an incorrect prediction has a higher uncertainty than a correct one.",
    "error_aupr": "Area under the precision-recall curve of uncertainty as a detector of errors.",
    "aurc": "Area under the risk-coverage curve: mean loss when the most uncertain inputs are rejected.",
    "pavpu": "Share of inputs that are correct with a significant lead, or incorrect without one (p < 0.05).",
    "epistemic": "Mean epistemic uncertainty, in nats: disagreement between the samples.",
    "entropy": "Mean total uncertainty, in nats.",
    "set_coverage": "Share of prediction sets that contain the true label.",
    "set_size": "Mean number of labels in a prediction set.",
    "ood_auroc": "Probability that an out-of-distribution input has a higher entropy than another one.",
    "novelty_auroc": "Probability that an out-of-distribution input has a higher novelty than another one.",
    "passes": "Forward passes of one input.",
    "seconds": "Wall time of all predictions.",
    "loss": "Mean loss of a row, by which methods are compared.",
    "error_spearman": "Spearman's rank correlation between the loss and the uncertainty of the rows.",
    "coverage_90": "Share of targets inside of the central 90 % interval of the samples.",
    "crps": "Continuous ranked probability score of the samples.",
    "rmse": "Root of the mean squared error.",
    "pearson": "Correlation between predictions and targets.",
    "spearman": "Rank correlation between predictions and targets.",
    "bleu": "Corpus BLEU, in percent.",
    "chrf": "Corpus chrF, in percent.",
    "ter": "Translation edit rate, in percent.",
    "f1": "Token overlap of prediction and reference.",
    "exact": "Share of predictions equal to a reference, in percent.",
    "exact_match": "Share of predictions equal to a reference, in percent.",
}
"""One sentence for each measure."""
