"""Finetune on SQuAD 1.1 or 2.0 with Bayesian or plain attention.

python scripts/run_squad.py --version 2.0 --model_name_or_path albert-base-v2 --output_dir out/squad2  # the paper's
python scripts/run_squad.py --version 1.1 --attention plain                               # plain attention
python scripts/run_squad.py --data_dir squad --train_file train.json --dev_file dev.json  # your own files
python scripts/run_squad.py --model_name_or_path minilm --recipe fast --limit 500         # for a laptop
ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 scripts/run_squad.py --version 2.0  # two processes

`--help` lists all options; `hf-bam squad` is the same command.
"""

import sys

from hf_bam.cli import main

if __name__ == "__main__":
    sys.exit(main(["squad", *sys.argv[1:]], prog="run_squad.py"))
