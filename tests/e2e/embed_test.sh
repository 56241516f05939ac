#!/bin/sh
# Installs, builds examples/embed by find_package and by pkg-config, runs both on a bundle, and looks at what they are linked with.
# usage: embed_test.sh SOURCE_DIR BUILD_DIR CXX
set -eu
source=$1 build=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "what: $1"
  exit 1
}

cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; fail "cmake --install failed"; }
cp -r "$source/examples/embed" "$work/embed"
cmake -S "$work/embed" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
  >"$work/log" 2>&1 && cmake --build "$work/by_cmake" >>"$work/log" 2>&1 || { cat "$work/log"; fail "it does not build through find_package(rtx)"; }
programs="$work/by_cmake/embed"
if command -v pkg-config >/dev/null 2>&1; then
  pc=$(find "$work/prefix" -name rtx.pc)
  PKG_CONFIG_PATH="${pc%/*}" make -C "$work/embed" CXX="$cxx" >"$work/log" 2>&1 || { cat "$work/log"; fail "it does not build through pkg-config"; }
  programs="$programs $work/embed/embed"
fi

# A bundle of the small model beside this script.
XDG_CONFIG_HOME=$work/config RTX_CACHE_DIR=$work/cache
export XDG_CONFIG_HOME RTX_CACHE_DIR
python3 "$source/tests/e2e/tiny_model.py" "$work/tiny.onnx"
"$build/bin/rtx" compile "$work/tiny.onnx" --target cpu --no-tune -q -o "$work/tiny.rtxgc" || fail "rtx compile failed"

for program in $programs; do
  # No compiler on PATH: the bundle must be enough.
  env PATH=/nonexistent "$program" "$work/tiny.rtxgc" >"$work/out" 2>&1 || { cat "$work/out"; fail "$program failed"; }
  cat "$work/out"
  grep -q 'verdict exact' "$work/out" || fail "the verdict on the machine that compiled is not exact"
  [ "$(grep -c 'none after the first run, same bytes as thread 0' "$work/out")" -eq 4 ] || fail "a thread allocated in the steady state or got other bytes"
  [ "$(grep -c '[1-9][0-9]* allocations' "$work/out")" -eq 4 ] || fail "the workspace of a thread does not come from its own allocator"
  foreign=$(ldd "$program" | grep -Ev 'linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so|libstdc\+\+|libgcc_s' || true)
  [ -z "$foreign" ] || fail "it needs more than the C and C++ libraries: $foreign"
  # Layers that only compile kernels, and what only they use.
  inside=$(nm -C "$program" | grep -E 'rtx::(compiler|import|kernels|fuse|codegen|tune|reference)::|google::protobuf|onnx::' | head -5 || true)
  [ -z "$inside" ] || fail "it links more than the runtime: $inside"
done

# A bundle of somebody else is refused with the exit code of a bundle.
status=0
XDG_CONFIG_HOME=$work/nobody "$work/by_cmake/embed" "$work/tiny.rtxgc" >"$work/out" 2>&1 || status=$?
[ "$status" -eq 3 ] || { cat "$work/out"; fail "a bundle of an unknown signer gave exit $status, wanted 3"; }
grep -q 'not trusted here' "$work/out" || { cat "$work/out"; fail "the refusal does not say why"; }
echo "examples/embed runs a bundle from four threads, built both ways"
