# The tests: C programs with cmocka (test_*.c) and command lines with bats (*.bats), all run by prove. tests/ mirrors
# the tree: what tests common/nn lies in tests/common/nn. tests/against holds what needs the real thing (PyTorch, Slurm,
# a browser, a GPU); it and the other folders have checks of their own.
# make test leaves out what bats files tag as slow; make check-slow runs that, and make test-all runs everything.
# .ci/run sets SAMPLE=0 ... 4: then a check runs a fifth of its files, or another part (tests/sample.sh).
# TESTS=... picks some: make test TESTS="tests/common/comm/test_ddp.c tests/steps/steps.bats"

TEST_FOLDERS  := helpers common launcher steps beyond tools teach docs house allocations memory against/mpi $(if $(filter 1,$(EXTRAS)),extras)
tests_named    = $(wildcard $(foreach depth,/ /*/ /*/*/,$(TEST_FOLDERS:%=tests/%$(depth)$(1))))
TEST_SOURCES  := $(call tests_named,test_*.c) tests/fuzz/test_fuzz.c
TEST_PROGRAMS := $(TEST_SOURCES:%.c=$(BUILD)/%)
TEST_HELPERS  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(call tests_named,test_*.c) %/mpi_ranks.c %/counter.c %/peak.c,$(call tests_named,*.c))) $(DOCTOR) $(PART_05)
MPI_RANKS     := $(if $(filter 1,$(MPI)),$(BUILD)/tests/against/mpi/mpi_ranks) # what tests/against/mpi/mpi.bats starts
COUNTED       := $(patsubst %.c,$(BUILD)/counted/%,$(wildcard 0[1-5]_*/train*.c 05_*/*/train*.c beyond/*/train*.c)) # tests/allocations/allocations.bats
PEAK          := $(BUILD)/tests/memory/peak # tests/memory/memory.bats
BENCHED       := $(BUILD)/bench/checkpoints $(BUILD)/bench/rows # tests/tools/bench_small.bats
SIMULATE      := $(BUILD)/tests/simulation/simulate
SIMULATOR     := $(patsubst %,$(BUILD)/tests/simulation/%.o,reconfigure network simulator sockets seam)
PLANTED       := $(if $(wildcard tests/simulation/plant.sh),$(addprefix $(SIMULATE)_,lost_wakeup double_rank late_message stale_attempt two_groups early_group))
SEAM          := $(addprefix -Wl$(comma)--wrap=,socket bind listen connect accept4 getsockname getpeername getsockopt setsockopt send recv shutdown close poll poll_awake seconds_awake eventfd eventfd_write epoll_create1 epoll_ctl epoll_wait clock_gettime pthread_create pthread_join kill getpid _exit comfort_port_owner mem_calloc)
TORCH_PEERS   := $(patsubst %.c,$(BUILD)/%,$(filter-out $(if $(filter 0,$(EXTRAS)),%/numa_peer.c),$(wildcard tests/against/torch/*.c))) # what tests/against/torch/*.py start
tests_of       = $(foreach name,$(1),$(call tests_named,test_$(name).c))
THREADED      := $(call tests_of,net store* tcp sockets on_demand shared_memory simulated_network collectives process_group split hierarchy fixed_all_reduce mismatches lost_ranks observer flight* ddp* unused gloo* stop snapshots agents)
ON_DEVICE     := $(call tests_of,device kernels conv optim model gradients plain) # or TEST_DEVICE=cuda
sampled        = $(if $(SAMPLE),$(shell tests/sample.sh $(1)),$(1))
# These start first, and the C programs last, so that no long file runs alone at the end.
LONGEST       := $(foreach name,bad_stops bad_ranks nodes slow_disk mpi lab 01_single_gpu 05_fault_tolerance bad_ports zero steps recipe,$(call tests_named,$(name).bats))
TESTS         ?= $(LONGEST) $(filter-out $(LONGEST),$(call tests_named,*.bats)) $(TEST_SOURCES)
ifeq ($(CHECK),check-extras)
TEST_SOURCES  := $(call sampled,$(TEST_SOURCES))
TESTS         := $(call sampled,$(TESTS))
endif
RUN_TESTS     := BUILD=$(BUILD) tests/run_tests.sh
# The requested target. A failure prints it in the command that repeats the test.
export CHECK  ?= $(or $(firstword $(filter check-%,$(MAKECMDGOALS))),test)

$(TORCH_PEERS): %: %.o $(BUILD)/tests/common/comm/store/store_ops.o $(LIB_BEYOND) $(LIB05) $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(filter-out %/test_fuzz,$(TEST_PROGRAMS)) $(MPI_RANKS): %: %.o $(TEST_HELPERS) $(LIB_BEYOND) $(BUILD)/tools/libmodel.a $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(LIBPNG) -lcmocka

# Functions that a test has in place of the program's own.
wrapping = $(addprefix -Wl$(comma)--wrap=,$(1))
$(BUILD)/tests/common/base/test_log: LDFLAGS += $(call wrapping,progress_bar_finish)
$(BUILD)/tests/common/comm/test_calls: LDFLAGS += $(call wrapping,staging_start staging_wait staging_free group_extras_leaving)
$(BUILD)/tests/common/comm/test_env: LDFLAGS += $(call wrapping,comfort_check_launchers)
$(BUILD)/tests/common/comm/test_process_group: LDFLAGS += $(call wrapping,store_try_wait store_check_secret group_extras_check group_extras_formed group_extras_leaving)
$(BUILD)/tests/common/comm/store/test_net_faults: LDFLAGS += $(call wrapping,seconds_now poll_awake)
$(BUILD)/tests/common/comm/store/test_store_wire: LDFLAGS += $(call wrapping,secret_find store_prove)
$(addprefix $(BUILD)/tests/common/comm/tcp/test_,mesh sockets): LDFLAGS += $(call wrapping,on_demand_form)
$(BUILD)/tests/common/comm/tcp/test_sockets: LDFLAGS += $(call wrapping,pipes_schedule pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock)
$(BUILD)/tests/common/comm/tcp/test_survivors: LDFLAGS += $(call wrapping,seconds_now seconds_awake)
$(addprefix $(BUILD)/tests/common/comm/tcp/test_,exchange notices watch): LDFLAGS += $(call wrapping,seconds_now seconds_awake seconds_awake_at_tick poll_awake sched_yield group_extras_waits_for on_demand_query on_demand_receive pipes_sleep pipes_wake log_info)
$(BUILD)/tests/common/comm/tcp/test_exchange: LDFLAGS += $(call wrapping,on_demand_connect network_arrival)
$(BUILD)/tests/common/comm/tcp/test_forming: LDFLAGS += $(call wrapping,seconds_awake store_try_wait store_set store_get net_listen net_accept net_connect net_recv on_demand_form on_demand_close interface_choose log_warning)
$(BUILD)/tests/extras/shared_memory/test_shared_memory: LDFLAGS += $(call wrapping,seconds_now)
$(BUILD)/tests/common/data/test_idx: LDFLAGS += $(call wrapping,idx_find_other)
$(BUILD)/tests/common/nn/test_device_gpus: LDFLAGS += $(call wrapping,gpus_visible gpus_count device_cuda_init)
$(BUILD)/tests/common/save/test_metrics: LDFLAGS += $(call wrapping,watch_init watch_step watch_test watch_end)
$(BUILD)/tests/common/save/test_checkpoint_final: LDFLAGS += $(call wrapping,watch_save comfort_announce)
# Their arrays end where a page does (tests/helpers/exact.h).
EXACT := comm/test_calls comm/test_ddp_uses comm/test_process_group $(addprefix comm/tcp/test_,exchange forming notices sockets watch) $(addprefix data/test_,dataloader dataset dataset_rows idx sampler) \
    $(addprefix nn/test_,kernels conv rows_alone model gradients plain optim)
$(EXACT:%=$(BUILD)/tests/common/%): LDFLAGS += $(call wrapping,mem_alloc mem_calloc)

# The tests of the kernels, with kernels built for other widths of vectors: $(BUILD)/widths/MARCH/test_NAME. The
# library comes last, so that its own kernels are not taken.
WIDTHS := x86-64-v2 x86-64-v3 x86-64-v3-amd x86-64-v4 # -amd: as GCC tunes it for AMD
KERNELS_OF = $(patsubst %.c,$(BUILD)/widths/$(1)/%.o,$(filter common/nn/plain%.c extras/fast_cpu/%.c,$(SOURCES)))
define width_rules
$(BUILD)/widths/$(1)/%.o: %.c $(BUILD)/parts
	@mkdir -p $$(@D)
	$$(call say,cc) $(CC) $(CPPFLAGS) $(CFLAGS) $$(KERNEL_FLAGS) -march=$(1:-amd=) $(if $(filter %-amd,$(1)),-mtune=znver3) -c -o $$@ $$<
$(BUILD)/widths/$(1)/test_%: $(BUILD)/tests/common/nn/test_%.o $(call KERNELS_OF,$(1)) $(BUILD)/libcommon.a
	$$(call say,link) $(LINK) $(LDFLAGS) -o $$@ $$^ $(LDLIBS) -lcmocka
$(BUILD)/widths/$(1)/test_bf16: $(BUILD)/tests/extras/fast_cpu/test_bf16.o $(call KERNELS_OF,$(1)) $(BUILD)/libcommon.a
	$$(call say,link) $(LINK) $(LDFLAGS) -o $$@ $$^ $(LDLIBS) -lcmocka
endef
$(foreach march,$(WIDTHS),$(eval $(call width_rules,$(march))))
.SECONDARY: $(foreach march,$(WIDTHS),$(call KERNELS_OF,$(march)))

# The programs that train, with a malloc that counts.
$(COUNTED): $(BUILD)/counted/%: $(BUILD)/%.o $(BUILD)/tests/allocations/counter.o $(LIB_BEYOND) $(LIB05) $(BUILD)/libcommon.a
	@mkdir -p $(@D)
	$(call say,link) $(LINK) $(LDFLAGS) -Wl,--wrap=optim_step -o $@ $^ $(LDLIBS)

$(PEAK): %: %.o
	$(call say,link) $(CC) $(LDFLAGS) -o $@ $^

# The kernels that test the stand-in of CUDA.
$(patsubst %.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c)): $(BUILD)/tests/cuda/stand_in_kernels.o

tests check: test # there is a folder named tests, and some type make check

test-all:
	@SLOW=all $(MAKE) -s test

# The tests that make test skips because they take long and seldom fail (6 minutes).
check-slow: all
	@SLOW=only $(MAKE) -s test TEST_SOURCES= TESTS="$(call sampled,$(call tests_named,*.bats))"

test: all $(TEST_PROGRAMS) $(MPI_RANKS) $(COUNTED) $(PEAK) $(BENCHED)
	@$(RUN_TESTS) $(TESTS)

# PyTorch's losses and accuracies on real MNIST (data/get_mnist.sh; ../shared/data/mnist also does).
check-mnist: all
	@$(MAKE) -s test TESTS="$(call sampled,$(wildcard tests/mnist/*.bats))"

# Weights, losses, files and the store against PyTorch itself, which tests/against/torch/venv.sh gets once.
# TORCH_SEED=N repeats the random settings that a failure names.
check-torch: all $(TORCH_PEERS)
	@export TORCH_BIN="$$(tests/against/torch/venv.sh)"; SLOW=all $(MAKE) -s test TESTS="$(call sampled,$(wildcard tests/against/torch/*.bats tests/against/torchrun/*.bats) tests/tools/bench_small.bats tests/tools/bench_suites.bats)"

# The pages, the slides and the site in headless Chromium and Firefox (./setup.sh --browser installs them); pictures of
# them go to build/browser. A change of the checkpoints' form makes play.html's hashes stale, so each sample has them.
check-browser: all
	@$(MAKE) -s test TESTS="$(sort tests/against/browser/hashes.bats $(call sampled,$(wildcard tests/against/browser/*.bats)))"

# Jobs on a real Slurm, which starts and ends with them (2 minutes; ./setup.sh --slurm installs it).
check-slurm: all
	@$(MAKE) -s test TESTS="$(call sampled,$(wildcard tests/against/slurm/*.bats))"

# The mpirun of three MPIs, which pip gets once (2 minutes); and, as measured, docs/slurm.md's table of launchers, also PyTorch's
# (2 minutes; a sample is of its rows).
check-launchers: all
	@rm -f $(BUILD)/launchers.txt
	@$(MAKE) -s test TEST_SOURCES= TESTS="$(call sampled,tests/against/launchers/launchers.bats) tests/against/launchers/table.bats"; status=$$?; \
	    grep '^launcher  ' docs/slurm.md; cat $(BUILD)/launchers.txt 2>/dev/null; exit $$status

# Our checkpoints, curves and traces in other tools, and their files here: the table is in tests/against/formats (2 minutes).
# Each file gets its packages from PyPI, once, in pinned versions.
check-formats: all
	@$(MAKE) -s test TEST_SOURCES= TESTS="$(call sampled,$(wildcard tests/against/formats/*.bats))"

# Step 05 under faults: killed, stopped, out of disk; the result is always the same (6 minutes).
# SEED=N repeats the random moments that a failure names. TORCH_BIN is where torchrun is, if not in PATH.
check-faults: all
	@$(MAKE) -s test TESTS="$(call sampled,$(filter-out %/chaos.bats,$(wildcard tests/faults/*.bats)))"

# Attacks on the ports of a job that has a secret: each is refused, and the bits are unchanged (1 minute).
check-attack: all
	@$(MAKE) -s test TEST_SOURCES= TESTS="$(call sampled,$(wildcard tests/attack/*.bats))"

# The models in beyond/proved: Spin tries every order of events, and finds what is broken on purpose (40 seconds; skipped
# where there is no spin).
check-proved: $(SIMULATE) $(PLANTED)
	@$(RUN_TESTS) tests/proved/proved.bats tests/simulation/simulation.bats

# Random kills of ranks that continue without a restart: KILLS=100 of them.
check-reconfigure: all
	@rm -rf $(BUILD)/kills && tests/faults/reconfigure_kills.py $(BUILD)/kills --kills $(or $(KILLS),100)

# The store and the rendezvous over a clock and sockets driven by a seed; and with faults planted in a copy.
$(BUILD)/tests/simulation/%.o: override CFLAGS += -ffp-contract=off # any compiler's clock is the same
$(SIMULATE): %: %.o $(SIMULATOR) $(LIB05) $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) $(SEAM) -o $@ $^ $(LDLIBS)
$(PLANTED): $(SIMULATE)_%: tests/simulation/plant.sh $(SIMULATE)
	@tests/simulation/plant.sh $* $@.c
	$(call say,link) $(LINK) $(CPPFLAGS) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) $(SEAM) -o $@ $@.c $(SIMULATE).o $(SIMULATOR) $(LIB05) $(BUILD)/libcommon.a $(LDLIBS)

# As check-faults, for CHAOS_SECONDS, with faults of all kinds at random; reports how soon each was detected.
check-chaos: 05
	@RERUN=never TEST_TIMEOUT=$$(($${CHAOS_SECONDS:-180} + 1800)) $(MAKE) -s test TEST_SOURCES= TESTS=tests/faults/chaos.bats

# Wrong and right programs of all labs (tests/labs/programs.txt) and of the traps, judged by make check-lab's judge;
# all experiments of the quizzes; all that the plan of teach/ has people type. make test takes a few.
check-labs: all
	@$(RUN_TESTS) $(call sampled,$(wildcard tests/labs/*.bats))

# The grader of a course: right programs, wrong ones, and ways to fool it (tests/class/cheats.txt).
check-class: grader
	@$(RUN_TESTS) $(call sampled,$(wildcard tests/class/*.bats))

# Up to 64 ranks on these cores, and 256 in a training: sums, losses, bytes and messages.
check-ranks: all
	@RANKS="8 12 16 32 64" $(MAKE) -s test TESTS="tests/common/comm/test_many_ranks.c $(wildcard tests/ranks/*.bats)"

# Small faults in common/, one at a time: do the tests of their folders see them? (ARGS='--number 20 common/save')
check-mutants:
	@tests/mutants/mutants.py $(or $(ARGS),common)

# Builds for other processors than this, the tests of all arithmetic in each; ARM's are emulated.
check-march:
	@$(RUN_TESTS) $(call sampled,$(wildcard tests/march/*.bats))

# The compilers of newer Debians, in machines of their own (as root).
check-machines:
	@tests/march/machines.sh

# The GPU's code without a GPU: compiled by nvcc, and run on a stand-in for CUDA (tests/cuda_stand_in).
check-cuda:
	@$(RUN_TESTS) $(sort tests/cuda/link_compile.bats $(call sampled,$(wildcard tests/cuda/*compile.bats))); status=$$?; \
	    tests/cuda/stand_in.sh "$(call sampled,$(wildcard tests/cuda/test_*.c) $(ON_DEVICE) $(filter-out %compile.bats,$(wildcard tests/cuda/*.bats)))" && exit $$status

# Everything that needs a real GPU, in one table (10 minutes; needs a GPU, CUDA, make and Python).
check-gpu:
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) tests/against/gpu/check.py $(CHECKS)

# A test of a device as PROGRAM, where cmocka may be missing: tests/against/gpu/check.py asks for it.
gpu-test: $(BUILD)/libcommon.a
	@$(LINK) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $(PROGRAM) $(SOURCE) $< $(LDLIBS) $(TRY_LIBS)

# Kernels with faults, for compute-sanitizer.
$(BUILD)/tests/against/gpu/control: %: %.o $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/tests/against/gpu/nccl_ranks: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/common/comm/collective_*.c)) $(BUILD)/libcommon.a
$(BUILD)/tests/against/gpu/machine $(BUILD)/tests/against/gpu/nccl_ranks: %: %.o
	$(call say,link) $(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

cuda-part: $(KERNELS:%.cu=$(BUILD)/%.o) $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(STAND_INS),$(filter $(PART_cuda) $(PART_nccl) $(PART_cudnn),$(SOURCES))))

# The tests without extras/, in a copy of the tree that is built so.
check-extras:
	@tests/copy_tree.sh build/no_extras
	@TAP_DIR="$${TAP_DIR:-$$PWD/build/tap}/no_extras" $(MAKE) -s -C build/no_extras test EXTRAS=0 CHECK=check-extras

# The C tests, and programs at work, in a copy of the tree where every access to memory is watched;
# then the tests with threads, where every access to shared memory is.
check-sanitizers:
	@tests/sanitize.sh address,undefined "$(TEST_SOURCES) tests/steps/checklist.bats $(call tests_named,ddprun*.bats) $(call tests_named,reconfigure_links.bats)"; status=$$?; \
	    tests/sanitize.sh thread "$(wildcard $(THREADED)) $(call tests_named,reconfigure_links.bats)" && exit $$status

# The same bits from 1, 2, 4 and 8 ranks, with --reduce-order fixed (half a minute).
prove: 05
	@tools/prove.sh

# The requirements of a DDP trainer, ticked off one by one.
checklist: all $(BUILD)/tests/common/comm/test_replicas
	@BUILD=$(BUILD) bats --pretty tests/steps/checklist.bats

include tests/fuzz/rules.mk
-include $(TEST_PROGRAMS:=.d) $(BUILD)/tests/allocations/counter.d $(MPI_RANKS:=.d) $(TORCH_PEERS:=.d) $(TEST_HELPERS:.o=.d)
.PRECIOUS: $(TEST_PROGRAMS:=.o) $(MPI_RANKS:=.o)
.PHONY: test tests check-proved check-attack check-extras check-ranks check-mutants check-march check-machines prove check-gpu gpu-test check-mnist check-torch check-browser check-slurm check-launchers check-formats check-faults check-reconfigure check-chaos check-labs check-class check-cuda cuda-part check-sanitizers checklist
