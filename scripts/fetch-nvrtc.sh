#!/bin/sh
# NVRTC for machines without a CUDA toolkit, so that the tests that compile kernels for NVIDIA GPUs run there too (they need no GPU):
# NVIDIA's package from PyPI, checked by its hash, unpacked into the user's cache. Does nothing where a toolkit has one.
#   --path   fetch nothing; print the folder of the one fetched earlier, or nothing
set -eu

version=13.0.88
sha256=ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
folder="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rtx-synth-tools/nvrtc-$version"

there() { [ -e "$1/libnvrtc.so.13" ] || [ -e "$1/libnvrtc.so.12" ]; }
installed() {
  [ -z "${RTX_NVRTC:-}" ] || return 0
  for root in "${CUDA_HOME:-/none}" "${CUDA_PATH:-/none}" "${RTX_CUDA_SYSTEM:-/usr/local}"/cuda "${RTX_CUDA_SYSTEM:-/usr/local}"/cuda-*; do
    for lib in lib64 lib targets/x86_64-linux/lib; do
      ! there "$root/$lib" || return 0
    done
  done
  return 1
}

if [ "${1:-}" = --path ]; then
  if ! installed && there "$folder"; then echo "$folder"; fi
  exit 0
fi
if [ $# -gt 0 ]; then
  echo "usage: fetch-nvrtc.sh [--path]" >&2
  exit 2
fi
if installed || there "$folder"; then exit 0; fi

fail() {
  echo "what: NVRTC $version was not fetched; tests that compile for CUDA will be skipped
why:  $1
fix:  $2" >&2
  exit 4
}
[ "$(uname -m)" = x86_64 ] || fail "its hash is known for x86_64 only, this is $(uname -m)" "install the CUDA toolkit, or name libnvrtc.so with RTX_NVRTC"
if ! python3 -m pip --version >/dev/null 2>&1; then
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || fail "python3 has no pip" "as root, run: apt-get install python3-pip"
  { apt-get install -y -q --no-install-recommends python3-pip || { apt-get update -q && apt-get install -y -q --no-install-recommends python3-pip; }; } \
    >/dev/null 2>&1 || fail "python3-pip cannot be installed" "check that a package registry is in reach"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "fetching NVRTC $version (90 MB)"
echo "nvidia-cuda-nvrtc==$version --hash=sha256:$sha256" >"$work/wanted.txt"
python3 -m pip download -q --no-deps --only-binary :all: --require-hashes -r "$work/wanted.txt" -d "$work" >"$work/log" 2>&1 ||
  fail "$(grep -m 1 ERROR "$work/log" || grep . "$work/log" | tail -n 1)" "check that a package registry is in reach, then run scripts/fetch-nvrtc.sh again"
# The compiler and its built-ins; the .alt pair is another allocator's.
python3 - "$work"/*.whl "$work/nvrtc" <<'EOF'
import pathlib, shutil, sys, zipfile
wheel, out = sys.argv[1:]
pathlib.Path(out).mkdir()
with zipfile.ZipFile(wheel) as files:
    for name in files.namelist():
        if "/lib/libnvrtc" in name and ".alt." not in name or name.endswith("License.txt"):
            with files.open(name) as source, open(pathlib.Path(out, pathlib.PurePosixPath(name).name), "wb") as target:
                shutil.copyfileobj(source, target)
EOF
# Whole or not at all, also when two do this at once.
mkdir -p "${folder%/*}"
fresh=$(mktemp -d "${folder%/*}/fresh-XXXXXX")
mv "$work/nvrtc" "$fresh/nvrtc"
mv -T "$fresh/nvrtc" "$folder" 2>/dev/null || there "$folder" || fail "$folder cannot be written" "see that there is room, or set XDG_CACHE_HOME"
rm -rf "$fresh"
