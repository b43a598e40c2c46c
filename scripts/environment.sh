# Sourced by other scripts: create a virtual environment with hf_bam and the given extras, once.
# The environment is .venv, or the folder in HF_BAM_VENV.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=${HF_BAM_VENV:-.venv}
stamp="$venv/hf_bam-$1.$(cat setup.py constraints.txt hf_bam/attention/backends/kernel/*.[ch] | cksum | cut -d ' ' -f 1)"
if [ ! -e "$stamp" ]; then
  echo "Installing hf_bam[$1] into $venv ..."
  python3 -m venv "$venv"
  # torch comes first and with its exact version: as a dependency of the others it would install several GB of CUDA.
  "$venv/bin/python" -m pip install --quiet "$(grep '^torch==' constraints.txt)"
  "$venv/bin/python" -m pip install --quiet --constraint constraints.txt --editable ".[$1]"
  touch "$stamp"
fi
