#!/bin/sh
# suite_test.sh SOURCE RTX SUITE PERCENT: a part of ../shared/SUITE, chosen by hash, must not fail.
set -eu
folder="$1/../shared/$3"
if [ ! -d "$folder" ]; then
  echo "skipped: there is no $3 in ../shared beside the repository"
  exit 77
fi
exec "$1/tools/onnx_suite" "$folder" --rtx "$2" --sample "$4"
