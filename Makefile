# The commands of README and CONTRIBUTING. Everything that is needed is installed into .venv from here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PEER_INSTALL = .peers/$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Two processes of one thread each: numpy, torch and onnxruntime would otherwise fight for the cores.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup

# Peers for the benchmarks, each in an environment of its own: the package itself, what it needs beside torch.
PEERS := perth audioseal wavmark silentcipher
perth_PACKAGE := resemble-perth==1.0.1 torchaudio==2.11.0
perth_NEEDS := librosa pyrubberband pyyaml "setuptools<81"
audioseal_PACKAGE := audioseal==0.2.0
audioseal_NEEDS := einops omegaconf
wavmark_PACKAGE := wavmark==0.0.3
wavmark_NEEDS := huggingface-hub librosa resampy tqdm "setuptools<81"
silentcipher_PACKAGE := silentcipher==1.0.5
silentcipher_NEEDS := huggingface-hub librosa pydub pyyaml scipy

.PHONY: run test quick lint docs results wheel peers clean

run: $(VENV)/.runtime
	$(BIN)/ideaw demo

test: $(VENV)/.dev lint
	$(PYTEST)

# About a minute, while one works: no types, and no test that takes more than about a second.
quick: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/lint.py
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict
	$(BIN)/ideaw demo --site site/demo --home ../demo.html

# The figures of the documentation, as far as they are stale; FLAGS=--list says which, and how long it takes. JOBS=2
# makes two at once; LIMIT clips and HOURS of unmarked audio make a short run.
results: $(VENV)/.dev
	$(BIN)/python benchmarks/make_results.py $(if $(CLIPS),--clips $(CLIPS)) $(if $(STEREO),--stereo $(STEREO)) \
		$(if $(FULL_RATE),--full-rate $(FULL_RATE)) $(if $(UNMARKED),--unmarked $(UNMARKED)) \
		$(if $(LYRA),--lyra $(LYRA)) $(if $(JOBS),--jobs $(JOBS)) $(if $(LIMIT),--limit $(LIMIT)) \
		$(if $(HOURS),--hours $(HOURS)) $(FLAGS)

wheel: $(VENV)/.dev
	$(BIN)/python -m build --wheel --no-isolation

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

# torch first and alone, so that nothing else decides which torch comes.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable ".[dev]"
	touch $@ $(VENV)/.runtime

peers: $(PEERS:%=.peers/%/.installed)

# torch first and alone. The packages come without what they ask for, since some ask for another torch. Of torchaudio
# only the Python files are used: its libraries belong to the torch that it was built for.
.peers/%/.installed: Makefile constraints.txt
	$(PYTHON) -m venv .peers/$*
	$(PEER_INSTALL) torch==2.13.0
	$(PEER_INSTALL) numpy soundfile soxr $($*_NEEDS)
	$(PEER_INSTALL) --no-deps $($*_PACKAGE)
	find .peers/$* -path "*/torchaudio/lib/*.so" -delete
	touch $@

clean:
	rm -rf $(VENV) build dist runs site
