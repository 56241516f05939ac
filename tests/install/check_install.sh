#!/bin/sh
# Installs into an empty folder, then uses the result as a stranger would: every header it
# would start from compiles alone, and examples/embed builds through find_package and through pkg-config.
# usage: check_install.sh SOURCE_DIR BUILD_DIR CXX
set -eu
source=$1 build=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
package=$(find "$work/prefix" -name rtxConfig.cmake)
pc=$(find "$work/prefix" -name rtx.pc)
for file in "$package" "$pc"; do
  [ -f "$file" ] || { echo "what: the CMake package or rtx.pc was not installed"; exit 1; }
done
export PKG_CONFIG_PATH="${pc%/*}"

cd "$work/prefix/include"
find rtx/runtime rtx/compiler rtx/backend/cpu -name '*.h' 2>/dev/null | sort | sed 's/.*/#include "&"/' >"$work/headers"
count=0
while read -r line; do
  echo "$line" >"$work/one.cpp"
  "$cxx" -std=c++20 -fsyntax-only -I "$work/prefix/include" -I "$work/prefix/include/rtx" "$work/one.cpp" || {
    echo "what: an installed header does not compile alone: $line"
    echo "fix:  include what it uses; cmake/public_headers.py installs what it includes"
    exit 1
  }
  count=$((count + 1))
done <"$work/headers"
[ "$count" -gt 0 ] || { echo "what: no header was installed"; exit 1; }
echo "$count installed headers compile alone"

[ -f "$source/examples/embed/CMakeLists.txt" ] || exit 0
cp -r "$source/examples/embed" "$work/embed"
cmake -S "$work/embed" -B "$work/embed/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 && cmake --build "$work/embed/build" >>"$work/log" 2>&1 || {
  cat "$work/log"
  echo "what: examples/embed does not build through find_package(rtx)"
  exit 1
}
if command -v pkg-config >/dev/null 2>&1; then
  # shellcheck disable=SC2046
  "$cxx" -std=c++20 "$work"/embed/*.cpp -o "$work/embed/by_pkg_config" $(pkg-config --cflags --libs rtx) || {
    echo "what: examples/embed does not build through pkg-config"
    exit 1
  }
  echo "examples/embed builds through find_package and pkg-config"
else
  echo "examples/embed builds through find_package; pkg-config is not installed, skipped"
fi
