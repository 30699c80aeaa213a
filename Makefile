# The two commands that matter: `make demo` shows what this is, `make test` proves it. CONTRIBUTING.md tells the rest.
BUILD ?= build
PREFIX ?= /usr/local
PYTHON = $$(tests/tools/python-env)

.PHONY: all demo test bench fuzz soak soak-models soak-upload soak-volume soak-deliveries soak-workloads valgrind cluster cluster-down demo-cluster install clean
all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	tools/install-deps
	meson setup $(BUILD) --buildtype=release --prefix=$(PREFIX)

demo:
	tools/install-deps --test
	$(MAKE) --no-print-directory all
	tools/demo $(BUILD)/src/main/ai-models

test:
	tools/run-tests

bench: all
	tools/install-deps --test
	$(PYTHON) tests/bench/bench.py --program $(BUILD)/src/main/ai-models --out $(BUILD)/bench $(ARGS)

fuzz:
	tools/install-deps --test
	tools/fuzz $(ARGS)

soak: all
	tools/install-deps --test
	$(PYTHON) tests/crash/sweep.py --program $(BUILD)/src/main/ai-models --kills 400 $(ARGS)

soak-models: all
	tools/install-deps --test --cluster
	AI_MODELS=$(BUILD)/src/main/ai-models $(PYTHON) tests/crash/model_sweep.py $(ARGS)

soak-upload: all
	tools/install-deps --test --cluster
	AI_MODELS=$(BUILD)/src/main/ai-models AI_MODELS_TESTS_UPLOAD_MIB=2048 AI_MODELS_TESTS_PART_MIB=64 \
	  $(PYTHON) -m pytest -q -p no:cacheprovider --timeout=1800 tests/kube/test_upload_gateway.py -k documented_loop $(ARGS)

soak-volume: all
	tools/install-deps --test
	AI_MODELS=$(BUILD)/src/main/ai-models $(PYTHON) tests/crash/volume_sweep.py $(ARGS)

soak-deliveries: all
	tools/install-deps --test --cluster
	AI_MODELS=$(BUILD)/src/main/ai-models $(PYTHON) tests/crash/delivery_sweep.py $(ARGS)

MINUTES ?= 30
soak-workloads: all
	tools/install-deps --test --cluster
	AI_MODELS=$(BUILD)/src/main/ai-models $(PYTHON) tests/crash/delivery_soak.py --minutes $(MINUTES) $(ARGS)

valgrind:
	tools/run-tests --only memcheck

cluster: all
	@tools/cluster up

cluster-down:
	@tools/cluster down

demo-cluster: all
	@tools/demo-cluster

install: all
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD) build-asan build-tsan build-fuzz
