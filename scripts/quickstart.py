"""Finetune a packaged BERT on movie reviews with plain and with Bayesian attention, compare both, and use the better.

scripts/quickstart                            # creates its environment and runs this file; about five minutes
scripts/quickstart --max_steps 400 --k 0.5    # more steps and more noise; takes the options of `hf-bam sentiment`
"""

import sys

import hf_bam
from hf_bam.cli import guarded
from hf_bam.training.arguments import parse
from hf_bam.training.showcase import show

LIMITS = ["--max_steps", "120", "--eval_limit", "200", "--uncertainty_rows", "200", "--num_samples", "16"]


def main(argv):
    request = parse("sentiment", [*LIMITS, "--output_dir", "out/quickstart", *argv], prog="scripts/quickstart")
    unused = [name for name in request.options if name not in ("report", "overwrite_output_dir")]
    if unused or len(request.jobs) > 1:
        raise ValueError(f"{', '.join(unused) or 'seeds'}: the quickstart trains two new models, with one seed.")
    comparison = show(request.jobs[0], request.output)
    if request.options.get("report", True):
        print(f"\nThe whole report: {hf_bam.report(comparison, request.output, 'Movie reviews')}")


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:], resumes=False))
