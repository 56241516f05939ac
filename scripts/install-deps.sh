#!/bin/sh
# Installs what the build needs on Debian 12 and Ubuntu 24.04: only what is missing, as root or
# through sudo.
#   --check   install nothing; fail with the list of what is missing
#   --all     also what `make test-all`, `make format` and `make tidy` use
set -eu

packages="g++ cmake ninja-build make git python3 ccache mold pkg-config ca-certificates
libfmt-dev libcli11-dev nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler
libsodium-dev libzstd-dev libprotobuf-dev protobuf-compiler libonnx-dev libgtest-dev"

check=no
for option in "$@"; do
  case "$option" in
    --check) check=yes ;;
    --all) packages="$packages clang libclang-rt-dev clang-format clang-tidy" ;;
    *) echo "usage: install-deps.sh [--check] [--all]" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
  [ "$check" = yes ] && exit 0
  echo "what: this system has no dpkg
why:  packages are named as on Debian 12 and Ubuntu 24.04
fix:  install the equivalents of:" $packages >&2
  exit 4
fi

missing=""
for package in $packages; do
  case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" in
    *" ok installed") ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

# Some packages only make the build quicker, or stand in for a tool that is there already.
if [ "$check" = yes ]; then
  needed=""
  for package in $missing; do
    case "$package" in
      ccache|mold|git|ca-certificates|pkg-config) ;;
      python3|cmake|make|g++|clang|clang-format|clang-tidy) command -v "$package" >/dev/null 2>&1 || needed="$needed $package" ;;
      ninja-build) command -v ninja >/dev/null 2>&1 || needed="$needed $package" ;;
      *) needed="$needed $package" ;;
    esac
  done
  [ -n "$needed" ] || exit 0
  echo "what: packages needed to build are not installed:$needed
fix:  run scripts/install-deps.sh as root, or with sudo available" >&2
  exit 4
fi

run=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "what: cannot install:$missing
why:  not root, and there is no sudo
fix:  as root, run: apt-get install --no-install-recommends$missing" >&2
    exit 4
  fi
  run=sudo
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
install() { $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1; }
if ! install; then
  { $run apt-get update -q >>"$log" 2>&1 && install; } || {
    tail -n 20 "$log" >&2
    echo "what: apt-get could not install:$missing
why:  its last lines are above
fix:  check that a package registry is in reach, then run scripts/install-deps.sh again" >&2
    exit 4
  }
fi
