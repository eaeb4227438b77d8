# Short names for what one does with this project; CMakePresets.json holds the builds themselves.
#
#   make setup      install what is missing (Debian packages, .venv)
#   make build      the library, and `mlx` importable from .venv/bin/python
#   make test       everything a change must pass; DEVICE=loopback: the Python tests on devices made of threads
#   make test-full  the slow rest: C and hostile Python tests under the sanitizers, long tests, others' programs,
#                   kernels for GPUs compiled for every target
#   make sanitize   all Python tests on a module under the address and undefined-behaviour sanitizers
#   make test-bare  as root: the README's two commands in a Debian 12 that has nothing else, in build/bare
#   make test-gpu   with an NVIDIA GPU: each operation beside the CPU, the tests of C API and Python on the GPU
#   make sanitize-gpu  the same under compute-sanitizer; TOOLS="memcheck racecheck": some of its tools
#   make fuzz       damaged files of every format for SECONDS (60) each, under the sanitizers
#   make soak       random programs on the GPU and the CPU for SECONDS (600), their results compared; SEED=n
#   make demo       train on scanned digits in Python, classify the same digits from C
#   make bench      speeds beside NumPy and JAX, as ratios; PEERS=all: PyTorch and llama.cpp too; WORDS="fft 1024"
#   make bench-gpu  with an NVIDIA GPU: a table beside PyTorch, where it is installed, and what bounds both; WORDS=sort
#   make accuracy   the table of docs/accuracy.md, over 10^8 operands for each function
#   make docs       the C API as HTML and man pages, in build/docs
#   make install PREFIX=dir
#   make lint       check the layout of C and Python, and look for mistakes (up to an hour of one core); CHANGED=rev:
#                   of C in the files that differ from that revision
#   make format     format Python, and the C files in FILES
#   make clean      remove what was built; .venv stays

PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
PYTHON  = .venv/bin/python
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: help setup build test test-full test-bare test-gpu sanitize sanitize-gpu fuzz soak demo bench bench-gpu accuracy docs install lint format clean

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)
	@tools/develop.sh build/release

test: build
	@cmake --build --preset release -j $(JOBS) --target tests/all
	@tools/test.sh

test-full: setup
	@tools/test-full.sh

test-bare:
	@tools/setup.sh bare
	@tools/test-bare.sh

test-gpu: setup
	@tools/test-gpu.sh

sanitize: setup
	@tools/sanitize.sh

sanitize-gpu: setup
	@tools/sanitize-gpu.sh $(TOOLS)

fuzz: setup
	@tools/fuzz.sh $(or $(SECONDS),60)

soak: setup
	@tools/soak.sh $(or $(SECONDS),600) $(SEED)

demo: build
	@tools/demo.sh

bench: build
	@tools/bench.sh

bench-gpu: setup
	@tools/bench-gpu.sh

accuracy: build
	@tools/accuracy.sh

docs:
	@tools/setup.sh docs
	@tools/docs.sh

install: build
	@cmake --install build/release --prefix $(abspath $(PREFIX))

lint: build
	@tools/lint.sh $(if $(CHANGED),--changed $(CHANGED))

format: setup
	@tools/lint.sh --fix $(FILES)

clean:
	rm -rf build dist
