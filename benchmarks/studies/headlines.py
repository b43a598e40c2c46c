"""Main score of every task."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    """Set and metric of the main score, and its title.

    Attributes:
        bam: configuration that represents Bayesian attention.
        factor: factor that makes the score a percentage.
    """

    title: str
    set: str
    metric: str
    bam: str = "BAM-WC"
    factor: int = 100

    def select(self, scores, task):
        """Return the rows of the main score."""
        return scores[(scores["task"] == task) & (scores["set"] == self.set) & (scores["metric"] == self.metric)]


HEADLINES = {
    "cola": Headline("CoLA, Matthews", "dev", "matthews"),
    "sst-2": Headline("SST-2, accuracy", "dev", "accuracy"),
    "sentiment": Headline("VADER snippets, accuracy", "test", "accuracy"),
    "mrpc": Headline("MRPC, F1", "dev", "f1"),
    "rte": Headline("RTE, accuracy", "dev", "accuracy"),
    "sts-b": Headline("STS-B, Pearson", "dev", "pearson"),
    "squad": Headline("SQuAD 1.1, F1", "dev", "f1", factor=1),
    "translation": Headline(
        "Multi30k en-de, BLEU (with dropout)", "test_2016_flickr", "bleu", "BAM-WC and dropout", factor=1
    ),
}
