# The front door; CMakePresets.json holds the build itself. `make help` lists the targets.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
PRESET ?= release
BUILD = $(if $(filter release,$(PRESET)),build,build-$(PRESET))
NVRTC = RTX_NVRTC="$${RTX_NVRTC:-$$(scripts/fetch-nvrtc.sh --path)}"
CTEST = $(NVRTC) ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: help build test test-all fuzz quickstart install format tidy clean

help:
	@echo 'make build        configure and build build/bin/rtx (g++, unity)'
	@echo 'make test         build, then unit tests, golden texts, checks and the fixed part of the suites'
	@echo 'make test-all     test, whole suites, and the unit tests again under clang and the sanitizers'
	@echo 'make fuzz         every *_fuzz.cpp under the sanitizers for FUZZ_SECONDS=$(FUZZ_SECONDS) each (clang)'
	@echo 'make quickstart   install packages, build, and make a real model faster on this machine'
	@echo 'make install      install rtx, the runtime library and its CMake package (PREFIX=$(PREFIX))'
	@echo 'make format       clang-format our sources'
	@echo 'make tidy         clang-tidy over our sources'
	@echo 'make clean        remove the build folders'
	@echo 'variables: JOBS=$(JOBS) PREFIX=$(PREFIX) PRESET=release|debug|asan|clang'

build:
	@scripts/install-deps.sh --check
	cmake --preset $(PRESET)
	cmake --build $(BUILD) -j $(JOBS)

# Tests labelled `whole` take longer than the everyday budget; test-all runs them.
test: build
	$(CTEST) -LE whole

test-all:
	@scripts/install-deps.sh --check --all
	$(MAKE) test
	$(CTEST) -L whole --no-tests=ignore
	cmake --preset clang
	cmake --build build-clang -j $(JOBS)
	$(NVRTC) ctest --test-dir build-clang --output-on-failure -j $(JOBS) -LE whole
	cmake --preset asan
	cmake --build build-asan -j $(JOBS)
	$(NVRTC) ctest --test-dir build-asan --output-on-failure -j $(JOBS) -LE whole
	$(MAKE) fuzz

# Every *_fuzz.cpp for FUZZ_SECONDS, from the seeds in tests/fuzz/NAME.
fuzz:
	@scripts/install-deps.sh --check --all
	cmake --preset fuzz
	cmake --build build-fuzz -j $(JOBS) --target fuzzers
	@scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS)

quickstart:
	@scripts/quickstart.sh

install: build
	DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

format:
	@git ls-files --cached --others --exclude-standard '*.h' '*.cpp' | xargs clang-format -i

tidy: build
	@git ls-files 'src/*.cpp' 'tools/*.cpp' | xargs clang-tidy -p $(BUILD) --quiet

clean:
	rm -rf build build-debug build-asan build-clang build-fuzz
