# make demo   paste on synthetic scenes and write a gallery to demo_out/
# make check  style, types, docs and structure
# make test   the same, with the whole test suite
# make tools  run other tools on small datasets, and compare them with the rules of `segpaste check --for`
# make wheels the wheels of every platform, into dist/
# make clean  remove what the targets above made, the environment included
#
# Only Python >= 3.11 and make are needed beforehand. `make test PYTHON=python3.12 VENV=.venv312` uses another
# interpreter in an environment of its own.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# uv installs, for it needs a fifth of the time of pip. It reads no settings of pip, so the index of pip is passed on;
# where that is not enough, such as with several indexes, pip installs.
INDEX = $${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}
UV = UV_DEFAULT_INDEX="$(INDEX)" $(BIN)/uv -q
PIP = -m pip install --no-compile
export UV_SYSTEM_CERTS ?= true
WORKERS ?= 2
# The Triton of the oldest torch that pyproject.toml accepts, and the newest NumPy with which its interpreter works:
# tests/engine/test_cuda.py compiles and interprets the kernels with them.
OLDEST_TRITON := 3.6
ITS_NUMPY := 2.3
OLDEST = --no-deps --target=$(VENV)/triton-$(OLDEST_TRITON) 'triton==$(OLDEST_TRITON).*' 'numpy==$(ITS_NUMPY).*'
OLDEST_TRITON_DONE = $(VENV)/.triton-$(OLDEST_TRITON)-numpy-$(ITS_NUMPY)
# FiftyOne's environment has half a gigabyte; Datumaro's suite and its own run with the tools.
IN_MEMORY := $(VENV)/trainers/datumaro/.done $(VENV)/trainers/fiftyone/.done
TRAINERS := $(filter-out $(IN_MEMORY),$(patsubst tests/trainers/%.txt,$(VENV)/trainers/%/.done,$(wildcard tests/trainers/*.txt)))
TOOLS := $(patsubst tests/tools/%.txt,$(VENV)/tools/%/.done,$(wildcard tests/tools/*.txt))
# The lowest declared versions, and the newest that pip resolves: scripts/version_ends.py.
VERSIONS := $(VENV)/versions/lowest/.done $(VENV)/versions/newest/.done
NATIVE := hatch_build.py $(wildcard $(addprefix src/segpaste/engine/native/,build.py src/*.* src/*/*))
export NO_MKDOCS_2_WARNING := 1
# An installation whose native library cannot be built fails here; elsewhere the slow reference would run.
export SEGPASTE_NATIVE ?= require
# What pip leaves uncompiled is compiled by the first process that imports it, and kept, or each of hundreds would.
unexport PYTHONDONTWRITEBYTECODE

# The checks, and the environments of the trainers, do not wait for each other.
MAKEFLAGS += --jobs=2

.PHONY: help demo check lint style types pages test tools wheels clean

help:
	@sed -n 's/^# make/make/p' Makefile

demo: $(VENV)/.core
	$(BIN)/segpaste demo --out demo_out

check: lint
	$(BIN)/pytest -qq tests/test_public_surface.py tests/test_import_arrows.py

lint: style types pages

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

pages: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

# The whole suite has the tests that check runs.
test: lint $(OLDEST_TRITON_DONE) $(TRAINERS) $(VERSIONS)
	$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --max-worker-restart 1

tools: $(TOOLS) $(TRAINERS) $(IN_MEMORY)
	$(BIN)/python scripts/prove_tools.py
	$(BIN)/python scripts/prove_datasets.py
	WITH_TOOLS=1 $(BIN)/pytest -q tests/trainers/test_trainers.py -k 'datumaro or fiftyone or smp'

wheels: $(VENV)/.dev
	$(BIN)/python scripts/build_wheels.py --out dist

clean:
	rm -rf $(VENV) demo_out example_out site dist

# The stamps make a second run immediate; an interrupted installation leaves none and is taken up again.
$(VENV)/.core: pyproject.toml constraints.txt $(NATIVE) | $(BIN)/uv
	$(UV) pip install --python $(BIN)/python -c constraints.txt -e . || $(BIN)/python $(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(NATIVE) | $(BIN)/uv
	$(UV) pip install --python $(BIN)/python -c constraints.txt -e '.[all]' || \
	    $(BIN)/python $(PIP) -c constraints.txt -e '.[all]'
	@touch $(VENV)/.core $@

# Beside the environment's own Triton, not over it: only a process whose PYTHONPATH begins with this folder imports it.
$(OLDEST_TRITON_DONE): | $(BIN)/uv
	rm -rf $(VENV)/triton-$(OLDEST_TRITON)
	$(UV) pip install --python $(BIN)/python $(OLDEST) || $(BIN)/python $(PIP) $(OLDEST)
	@touch $@

# An environment of its own, which also sees the packages of $(VENV): torch is not installed twice.
define ENVIRONMENT
	rm -rf $(@D)
	$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
endef

$(VENV)/trainers/%/.done: tests/trainers/%.txt $(VENV)/.dev
	$(ENVIRONMENT)
	$(UV) pip install --python $(@D)/bin/python --no-deps -r $< || $(@D)/bin/python $(PIP) --no-deps -r $<
	@touch $@

# A tool is installed beside the versions of $(VENV), or, where it needs others, in an environment that sees nothing else.
$(VENV)/tools/%/.done: tests/tools/%.txt $(VENV)/.dev
	$(ENVIRONMENT)
	{ $(UV) pip freeze --python $(BIN)/python --exclude-editable > $(@D)/seen.txt && \
	if $(UV) pip compile --python $(BIN)/python --no-header --no-annotate -c $(@D)/seen.txt $< -o $(@D)/all.txt; then \
	    { grep -vxFf $(@D)/seen.txt $(@D)/all.txt > $(@D)/own.txt || true; } && \
	    $(UV) pip install --python $(@D)/bin/python --no-deps -r $(@D)/own.txt; \
	else rm -f $(@D)/lib/*/site-packages/base.pth && $(UV) pip install --python $(@D)/bin/python -r $<; fi; } || \
	$(BIN)/python -m pip --python $(@D)/bin/python install --no-compile -r $<
	@touch $@

$(VENV)/versions/%/.done: scripts/version_ends.py $(VENV)/.dev
	$(ENVIRONMENT)
	$(BIN)/python $< $* > $(@D)/requirements.txt
	{ $(UV) pip compile --python $(BIN)/python --no-header --no-annotate $(@D)/requirements.txt -o $(@D)/resolved.txt && \
	$(UV) pip freeze --python $(BIN)/python > $(@D)/seen.txt && \
	{ grep -vxFf $(@D)/seen.txt $(@D)/resolved.txt > $(@D)/own.txt || true; } && \
	$(UV) pip install --python $(@D)/bin/python --no-deps -r $(@D)/own.txt; } || \
	$(@D)/bin/python $(PIP) --upgrade -r $(@D)/requirements.txt
	@touch $@

# Without uv there is a command that fails, so that pip installs.
$(BIN)/uv: | $(BIN)/pip
	$(BIN)/python $(PIP) -q -c constraints.txt uv || { echo 'exit 1' > $@ && chmod +x $@; }

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("segpaste needs Python 3.11 or newer and $(PYTHON) is " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
