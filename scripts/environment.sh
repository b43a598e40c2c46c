# Sourced by the scripts beside it: makes a virtual environment with hf_bam and the extras given, once.
# The environment is .venv, or what HF_BAM_VENV names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=${HF_BAM_VENV:-.venv}
stamp="$venv/hf_bam-$1.$(cat setup.py constraints.txt | cksum | cut -d ' ' -f 1)"
if [ ! -e "$stamp" ]; then
  echo "Installing hf_bam[$1] into $venv ..."
  python3 -m venv "$venv"
  # torch comes first and by its exact version: as a dependency of the others it would bring several GB of CUDA along.
  "$venv/bin/python" -m pip install --quiet "$(grep '^torch==' constraints.txt)"
  "$venv/bin/python" -m pip install --quiet --constraint constraints.txt --editable ".[$1]"
  touch "$stamp"
fi
