#!/bin/sh
# make quickstart: installs what is missing, builds, and makes a real model faster on this machine.
# Debian 12; Ubuntu 24.04 has the same packages (not run there). Needs root or sudo, and package registries in reach.
#   MODEL=FILE.onnx   use this sentence encoder instead (inputs input_ids, attention_mask[, token_type_ids])
#   BUDGET=SECONDS    time to search for faster kernels, each for the model and its baseline (default 30)
set -eu
cd "$(dirname "$0")/.."
start=$(date +%s)
say() { printf '\n== %s\n' "$1"; }
fail() {
  printf 'error: %s\n  %s\n  fix: %s\n' "$1" "$2" "$3" >&2
  exit "$4"
}
trap 'printf "\ninterrupted; what was built, downloaded and tuned is kept; run make quickstart again to go on\n" >&2; exit 130' INT TERM

say "packages"
scripts/install-deps.sh
missing=""
for package in libopenblas0 python3-pip; do
  case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" in *" ok installed") ;; *) missing="$missing $package" ;; esac
done
if [ -n "$missing" ]; then
  root=""
  [ "$(id -u)" -eq 0 ] || root=sudo
  if [ -n "$root" ] && ! command -v sudo >/dev/null 2>&1; then
    fail "cannot install:$missing" "not root, and there is no sudo" "as root, run: apt-get install$missing" 4
  fi
  $root apt-get install -y -qq --no-install-recommends $missing >/dev/null || fail "cannot install:$missing" "apt-get failed" "look at its message above" 4
fi

say "build"
make -s build >.quickstart.log 2>&1 || {
  tail -n 30 .quickstart.log >&2
  fail "the build failed" "its last lines are above; all of them are in .quickstart.log" "make build" 1
}
rm -f .quickstart.log
build/bin/rtx --version

say "model"
exec python3 scripts/quickstart.py --started "$start" --budget "${BUDGET:-30}" ${MODEL:+--model "$MODEL"}
