"""Finetune a packaged BERT on rated sentences, with plain and with Bayesian attention, and see what each doubts.

scripts/quickstart                            # makes its environment, then runs this file; about five minutes
scripts/quickstart --max_steps 400 --k 0.5    # longer, and with more noise; all options of `hf-bam sentiment`
"""

import sys

import hf_bam
from hf_bam.cli import guarded
from hf_bam.training.arguments import parse
from hf_bam.training.showcase import show

LIMITS = ["--max_steps", "100", "--eval_limit", "200", "--uncertainty_rows", "150", "--samples", "16"]


def main(argv):
    request = parse("sentiment", [*LIMITS, "--output", "out/quickstart", *argv], prog="scripts/quickstart")
    unused = [name for name in request.options if name not in ("report", "overwrite_output_dir")]
    if unused or len(request.jobs) > 1:
        raise ValueError(f"{', '.join(unused) or 'seeds'}: the quickstart trains two models anew, with one seed.")
    comparison = show(request.jobs[0], request.output)
    if request.options.get("report", True):
        print(f"\nThe whole report: {hf_bam.report(comparison, request.output, 'Movie reviews')}")


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
