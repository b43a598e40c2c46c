"""Finetune on GLUE, or on sentences of your own, with Bayesian or plain attention.

python scripts/run_glue.py --task mrpc --model albert-base-v2 --output out/mrpc           # the paper's recipe
python scripts/run_glue.py --task cola --attention plain                                  # the same without BAM
python scripts/run_glue.py --task all --seeds 0 1 2 3 4 --data_dir glue_data              # mean and deviation
python scripts/run_glue.py --task rte --model minilm --recipe fast --limit 500            # for a laptop
python scripts/run_glue.py --task custom --data_dir my_data --text_column text --label_column label
accelerate launch --num_processes 2 scripts/run_glue.py --task mrpc                       # several processes

`--help` names all options; `hf-bam glue` is the same command, installed.
"""

import sys

from hf_bam.cli import main

if __name__ == "__main__":
    sys.exit(main(["glue", *sys.argv[1:]], prog="run_glue.py"))
