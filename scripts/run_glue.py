"""Finetune on GLUE, or on your own sentences, with Bayesian or plain attention.

python scripts/run_glue.py --task_name mrpc --model_name_or_path albert-base-v2 --output_dir out/mrpc  # the paper's
python scripts/run_glue.py --task_name cola --attention plain                              # plain attention
python scripts/run_glue.py --task_name all --seeds 0 1 2 3 4 --data_dir glue_data          # means over seeds
python scripts/run_glue.py --task_name rte --model_name_or_path minilm --recipe fast --limit 500  # for a laptop
python scripts/run_glue.py --task_name custom --data_dir my_data --text_column text --label_column label
ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 scripts/run_glue.py --task_name mrpc  # two processes

`--help` lists all options; `hf-bam glue` is the same command.
"""

import sys

from hf_bam.cli import main

if __name__ == "__main__":
    sys.exit(main(["glue", *sys.argv[1:]], prog="run_glue.py"))
