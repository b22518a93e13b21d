# Needs nothing but make: what is missing is installed with apt (make SETUP=: leaves that to you).
#   make         build/lockstep
#   make train   train a small model on real text, in about two minutes
#   make test    every test
#   make install  program, plugins, recipes, docs, man pages and completion into PREFIX=/usr/local, below DESTDIR
#   make package  a tarball, a Debian package and a Python wheel in build/packages
#   make package-test   each installed on a bare Debian 12 and 13, and trained with (root)
#   make faults  faults at system calls, and power cuts, in every command that writes
#   make scenarios   200 random faults of ranks, and 10,000 random requests to a server
#   make parity  the layout changes nothing: all layouts in fp32 and bf16, 200 random ones of random models, every resume, a run on 16
#   make cuda    build-cuda/lockstep with kernels for NVIDIA GPUs (CUDA 13; CMAKE_ARGS=-DLOCKSTEP_CUDA_ROOT=FOLDER where it is elsewhere)
#   make arm     tests of base, tensor and ops, and the demo's first steps, on aarch64, by qemu
#   make cluster-test   training on two hosts made of network namespaces (root)
SETUP ?= scripts/setup
CTEST_FLAGS = --output-on-failure --no-tests=error --progress

.DEFAULT_GOAL := build
.PHONY: build train test install package package-test faults scenarios parity arm cuda cluster-test bench format lint docs asan tsan fuzz coverage clean

build:
	@$(SETUP) build
	@scripts/build release lockstep

train:
	@SETUP='$(SETUP)' scripts/first-run

test:
	@$(SETUP) build
	@scripts/build release
	@ctest --test-dir build $(CTEST_FLAGS)

install: build
	@PREFIX='$(or $(PREFIX),/usr/local)' DESTDIR='$(DESTDIR)' scripts/install

# They run on this system's release and on newer ones.
package:
	@$(SETUP) build package
	@CMAKE_ARGS="$(CMAKE_ARGS) -Wno-dev" scripts/build release lockstep # configured again: an MPI may have come
	@scripts/package

package-test: package
	@tests/packages/run

# So many of each in every scenario; FAULTS=9999 CUTS=9999 for all that there are.
faults:
	@$(SETUP) build
	@scripts/build release lockstep inject_faults
	@build/inject_faults --faults $(or $(FAULTS),200) --cuts $(or $(CUTS),80)

# One of each fault; CLUSTER_FAULTS=200 for more, CLUSTER_SEED=N for others.
cluster-test: build
	@scripts/build release cable
	@tests/cluster/run

# Random faults of ranks, and requests to a server; SCENARIOS=1000 and STORM=100000 for more, SEED=N for others.
scenarios:
	@$(SETUP) build
	@scripts/build release
	@LOCKSTEP_SCENARIOS=$(or $(SCENARIOS),200) LOCKSTEP_SCENARIO_SEED=$(or $(SEED),1) build/test_app --gtest_filter='Scenarios.*'
	@LOCKSTEP_PROGRAM=build/lockstep LOCKSTEP_STORM=$(or $(STORM),10000) LOCKSTEP_STORM_SEED=$(or $(SEED),1) $(or $(PYTHON),python3) \
	  tests/python/storm_test.py || [ $$? = 77 ]

# CASES=1000 for more random layouts, SEED=N for others.
parity:
	@$(SETUP) build
	@scripts/build release lockstep test_lab test_train test_app
	@build/lockstep verify --layouts all --html build/parity.html
	@build/lockstep verify --layouts all --dtype bf16
	@LOCKSTEP_VERIFY_CASES=$(or $(CASES),200) LOCKSTEP_VERIFY_SEED=$(or $(SEED),1) build/test_lab --gtest_filter='VerifyRandom.*'
	@LOCKSTEP_WRONG_WAYS=all build/test_lab --gtest_filter='*AgainstWays.*'
	@LOCKSTEP_RESUME_MATRIX=all build/test_train --gtest_filter='ResumeTable.*'
	@LOCKSTEP_RUN_STEPS=50 build/test_app --gtest_filter='FourDimensions.*'
	@scripts/build release test_cuda test_cuda_planted
	@build/test_cuda --gtest_brief=1
	@$(or $(PYTHON),python3) tests/emulation/mutation/run build/test_cuda_planted
	@for name in dump families gguf names parallel right; do LOCKSTEP_PROGRAM=build/lockstep LOCKSTEP_DUMP_CASES=all \
	  $(or $(PYTHON),python3) tests/python/$${name}_test.py || [ $$? = 77 ] || exit 1; done

arm:
	@$(SETUP) build arm
	@scripts/arm-root build-arm/root
	@scripts/build release lockstep
	@scripts/build arm lockstep test_base test_tensor test_ops
	@tests/arm/demo build/lockstep build-arm/lockstep build-arm/root
	@ctest --test-dir build-arm $(CTEST_FLAGS) -L '^(base|tensor|ops)$$' --timeout 3000

cuda:
	@$(SETUP) build
	@scripts/build cuda lockstep

bench: build
	@build/lockstep bench gemm
	@build/lockstep bench step --shape tiny
	@build/lockstep bench step --shape char-12x64

format:
	@$(SETUP) format
	@scripts/format

lint:
	@$(SETUP) build lint
	@scripts/lint

docs:
	@$(SETUP) docs
	@scripts/docs

asan:
	@$(SETUP) build clang
	@scripts/build asan
	@ctest --test-dir build-asan $(CTEST_FLAGS)

tsan:
	@$(SETUP) build
	@scripts/build tsan
	@ctest --test-dir build-tsan $(CTEST_FLAGS)

# Each target for a minute; FUZZ_SECONDS=600 for longer.
fuzz:
	@$(SETUP) build clang
	@scripts/fuzz $(or $(FUZZ_SECONDS),60)

coverage:
	@$(SETUP) build coverage
	@scripts/build coverage
	@ctest --test-dir build-coverage $(CTEST_FLAGS)
	@gcovr --root . --filter src/ --object-directory build-coverage --print-summary --sort-percentage

clean:
	@rm -rf build build-*
