"""The command `python -m hf_bam`, the same as `hf-bam`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
