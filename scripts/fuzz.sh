#!/bin/sh
# Runs every fuzzer that was built for a number of seconds, from the seeds in tests/fuzz/NAME.
# usage: fuzz.sh BUILD_DIR SECONDS
# A crash leaves its input in BUILD_DIR/fuzz/NAME and ends with exit 1.
set -eu
cd "$(dirname "$0")/.."
build=$1 seconds=$2 found=0 failed=0

for fuzzer in "$build"/bin/*_fuzz; do
  [ -x "$fuzzer" ] || continue
  found=$((found + 1))
  name=$(basename "$fuzzer")
  mkdir -p "$build/fuzz/$name/corpus"
  seeds=""
  [ -d "tests/fuzz/$name" ] && seeds="tests/fuzz/$name"
  echo "fuzzing $name for $seconds s"
  # rss_limit_mb: a small hostile file must never make a reader take memory beyond its own size.
  if ! "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
      -artifact_prefix="$build/fuzz/$name/" "$build/fuzz/$name/corpus" $seeds >"$build/fuzz/$name/log" 2>&1; then
    failed=$((failed + 1))
    tail -n 40 "$build/fuzz/$name/log"
    echo "what: $name failed; the input is in $build/fuzz/$name
fix:  run $fuzzer on that file, then keep it in tests/fuzz/$name"
  fi
  grep -E 'number_of_executed_units|new_units_added' "$build/fuzz/$name/log" || true
done
echo "$found fuzzers, $failed failed"
[ "$failed" -eq 0 ]
