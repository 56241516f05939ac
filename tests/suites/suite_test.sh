#!/bin/sh
# suite_test.sh SOURCE RTX SUITE PERCENT [OPTION...]: a part of ../shared/SUITE, chosen by hash, must not fail.
set -eu
folder="$1/../shared/$3"
if [ ! -d "$folder" ]; then
  echo "skipped: there is no $3 in ../shared beside the repository"
  exit 77
fi
source="$1" rtx="$2" percent="$4"
shift 4
exec "$source/tools/onnx_suite" "$folder" --rtx "$rtx" --sample "$percent" "$@"
