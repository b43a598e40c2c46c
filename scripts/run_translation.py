"""Finetune a translation model, or train a small one from scratch, with Bayesian or plain attention.

python scripts/run_translation.py --dataset language --source en --target qaa --recipe fast  # no download
python scripts/run_translation.py --model Helsinki-NLP/opus-mt-de-en --source de --target en --data_dir data/de-en
python scripts/run_translation.py --source en --target de --recipe fast                      # from scratch, Multi30k
ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 scripts/run_translation.py --source en --target de  # two processes

The data folder contains train.de and train.en, dev.de and dev.en, and test sets, with one sentence per line.
`--help` lists all options; `hf-bam translation` is the same command.
"""

import sys

from hf_bam.cli import main

if __name__ == "__main__":
    sys.exit(main(["translation", *sys.argv[1:]], prog="run_translation.py"))
