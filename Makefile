# Start here:
#   make room-check                    is this machine ready? One line to read
#   make 01 && 01_single_gpu/run.sh    train a first model; docs/01_single_gpu.md
#   make 03 && 03_torchrun_env/run.sh 2, then make diff-03   two ranks, and how
# Then:
#   make               build all steps           make 03         build one step
#   make test          the tests (10 minutes)    make diff-03    what step 03 adds
#   make doctor        what this machine has     make checklist  requirements
#   make lab-02a       write step 02a yourself   make check-lab  how far you are
#   make trap-03       find out what is wrong    make check-trap is it that?
#   make quiz-02       predict, then run         make progress   done and open
#   make lab           the list of labs, likewise make trap, make quiz
#   make twin-03       step 03 in PyTorch        make diff-twin-03
#   make plot RUN=DIR  curves of --metrics-dir   make lanes TRACE=FILE  of a step
#   make payoff        what overlap saves; also overlap, scaling, zero, lr-sweep
#   make prove         1, 2, 4 and 8 ranks end with the same bits (1 minute)
#   make bench         beside PyTorch, Gloo and Open MPI (10 minutes)
#   make site          the book as a web site    make slides     for a class
#   make install       ddprun and the tools      make clean      what was built
#   make help-all      all targets, all checks, and options such as EXTRAS=0
#
# make            build all steps           make 03         build one step (make beyond: the asides)
# make test       the tests (10 minutes)    make diff-03    what step 03 adds to the one before
# make doctor     what this machine has (ARGS=--all: every part)   make checklist  the requirements, ticked off
# make room-check is this machine ready for the workshop? One line to read aloud
# make slides     the chapters' slides, in build/slides       make rehearse   the plan of teach/ (3 minutes)
# make lab-02a    write step 02a yourself   make check-lab  how far you are (LAB=02a; else the last one you changed)
# make lab-ring   write a part of the library yourself (lab-sampler, -reducer, -store, -snapshot, too); make mine: train with it
# make lab-capstone  carry another problem through all five steps (docs/capstone.md)
# make trap-03    find out what is wrong    make check-trap is it that?   make hint
# make quiz-02    predict, then run         make progress   what is done, begun and open
# make lab, make trap, make quiz            the lists of them
# make student-tree OUT=DIR LABS="02b ring"  the repository without the solutions of these labs (docs/teach/class.md)
# make twin-03    step 03 beside PyTorch's  make diff-twin-03  what that adds to the one before
# make reset-02c  begin lab 02c anew (also reset-trap-03, reset-quiz-02); what you wrote is kept in lab/aside
# make plot RUN=DIR     what --metrics-dir DIR wrote, as curves (RUN=DIR,DIR: several runs)
# make lanes TRACE=FILE what --trace FILE wrote of a step, as lanes
# make overlap    how much of the communication the backward pass hides (2 minutes)
# make payoff     what overlap saves on a slow network (2 minutes)
# make scaling    what more ranks bring, and how 128 start; models of 1,024 and 10,000 (10 minutes)
# make zero       what a rank holds and sends, from DataParallel to ZeRO-3 (1 minute)
# make comm-hooks what bf16 and PowerSGD save on slow networks (3 minutes)
# make local-sgd  what local SGD, DiLoCo and streaming learn by bytes and by time on slow networks (10 minutes)
# make lr-sweep   what the learning rate may be, by the number of ranks (5 minutes)
# make bench      all of it beside PyTorch, Gloo and Open MPI (10 minutes; bench/bench.py --help)
# make site       the book as a web site: build/site/index.html (1 minute; opens from files)
# make play       steps 01 and 02 for a browser, four ranks in docs/moving/play.html (./setup.sh --play gets clang for it)
# make install    ddprun and the tools, with manual pages, in PREFIX=/usr/local (DESTDIR=); make uninstall
# make clean      delete what was built     make help       the short list
#
# Stages of step 02: make diff-02a, diff-02b, diff-02c, diff-02; from DataParallel: diff-dp; to FSDP: diff-zero1 to
# diff-zero5, diff-addgroup; to buffers: diff-batchnorm, diff-syncbn; to uneven inputs: diff-uneven, diff-join; to hooks:
# diff-bf16hook, diff-powersgd; to rounds: diff-localsgd, diff-diloco, diff-streaming; to divided layers: diff-tensor_parallel; to
# less memory for activations: diff-recompute; to a job of PyTorch: diff-gloo. make docs renews what the documents quote,
# and their pictures; make format calls clang-format, make lint also shellcheck and ruff, and changes nothing; make
# compile_commands.json is for editors.
# More checks, besides make test, which takes 10 minutes on two idle cores of an AMD Zen 3:
#   make test-all          also the tests that make test leaves out, since they are slow; check-slow: those alone
#   make prove             1, 2, 4 and 8 ranks end with the same bits (1 minute)
#   make check-extras      the tests without extras/ (almost as long as make test)
#   make check-faults      step 05 on bad days (6 minutes)
#   make check-reconfigure KILLS=100 random kills of ranks whose neighbours go on (1 minute)
#   make check-attack      strangers at the ports of a job (1 minute)
#   make check-proved      models of the protocols, in every order of events (1 minute)
#   make check-chaos       random faults for CHAOS_SECONDS=180, one result
#   make check-labs        wrong programs, each of which make check-lab must reject; all traps, all quizzes, the whole plan (15 minutes)
#   make check-class       the grader of teach/class: right and wrong programs, and 60 ways to fool it (10 minutes)
#   make check-ranks       many ranks on few cores (1 minute)
#   make check-mutants     small faults in common/, and which of them no test sees (10 minutes)
#   make check-march       builds for other processors (4 minutes)
#   make check-machines    compilers of newer Debians; as root (1 hour)
#   make check-cuda        the GPU's code without a GPU (5 minutes)
#   make check-gpu         what only a GPU shows (10 minutes; bench-gpu: beside PyTorch; gpu-ladder: nine kernels, six all-reduces;
#                          gpu-first-hour: all three, into one file)
#   make check-mnist       accuracies on real MNIST (5 minutes)
#   make check-torch       against PyTorch itself (5 minutes)
#   make check-slurm       jobs on a real Slurm (2 minutes)
#   make check-launchers   Open MPI, MPICH, Intel MPI, Slurm, torchrun, accelerate and deepspeed (4 minutes)
#   make check-formats     our files in other tools, and theirs here (2 minutes)
#   make check-browser     the pages, the slides and the site in Chromium, play.html also in Firefox (15 minutes)
#   make check-sanitizers  every access to memory watched (8 minutes)
#   make check-fuzz        bytes that nobody expects (3 minutes)
#   make check-bare        fresh machines; as root (20 minutes)
# Options: EXTRAS=0, MPI=0, CUDA=0, NCCL=0, CUDNN=0, PNG=0, HTTP=0, DEFLATE=0 (leave a part out), MARCH=x86-64-v3 (for other
# machines than this), FMA=0 (no a * b + c in one instruction: the bits of docs/moving/play.html), CUDA_HOME=DIR,
# NCCL_HOME=DIR, CUDNN_HOME=DIR, MPI_HOME=DIR (where these are), MPI_ABI=1 (one program for each MPI that has the
# standard's library, as MPICH 5 and Intel MPI), CUDA_ARCH=all-major (for every GPU, which takes three times as long; else
# for this machine's, or without one for the oldest, which newer GPUs compile anew when a program starts, if their driver
# knows this CUDA), V=1 (show the commands), ONLY=NAME (of the tests, this file alone, with or without its folder: for make
# test and every check).

BUILD     ?= build
# A lab, a trap, a quiz, or a program from outside the tree, is compiled with the choices of the library that is there.
ifneq ($(TRY)$(MINE)$(filter lab-% check-lab trap-% check-trap quiz-% reset-%,$(MAKECMDGOALS)),)
include $(wildcard $(BUILD)/parts)
endif

CC        ?= cc
CUDA_HOME ?= $(shell tools/cuda_home.sh)
CUDA_ARCH ?= $(if $(wildcard /dev/nvidia0 /dev/dxg),native,sm_75)
MARCH     ?= native
OPENMP    ?= -fopenmp
CFLAGS    ?= -O3 -g
CHOSEN    := CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)'
override CFLAGS  += -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror=implicit-function-declaration -MMD -MP $(OPENMP) -march=$(MARCH)
# Before main, extras/comfort/processor.c looks whether MARCH suits.
override LDFLAGS += $(OPENMP) -Wl,-u,processor_check
CPPFLAGS  += -I.
LDLIBS    += -lyaml -ljansson $(if $(filter 1,$(EXTRAS)),-lsodium) -lz -lm -lpthread

# Optional parts, found by their compiler or header; extras/ is one. ROOM_no_PART.c has what the part's functions do in a
# build without it.
header = $(if $(filter $(1),$(HEADERS)),1,0)
HEADERS = $(eval HEADERS := $(shell printf '\043if __has_include(<%s>)\n%s\n\043endif\n' $(foreach name,png.h microhttpd.h libdeflate.h,$(name) $(name)) | \
    $(CC) -E -P -x c - 2>/dev/null))$(HEADERS)
accepted = $(shell $(CC) -Werror $(1) -c -o /dev/null -x c /dev/null 2>/dev/null && echo $(1))
MPI  ?= $(if $(shell command -v $(MPI_HOME:%=%/bin/)mpicc),1,0)
CUDA ?= $(if $(wildcard $(CUDA_HOME)/bin/nvcc),1,0)
NCCL_HOME ?= $(if $(filter 1,$(CUDA)),$(shell tools/cuda_home.sh nccl $(CUDA_HOME)))
NCCL ?= $(if $(NCCL_HOME),$(CUDA),0)
CUDNN_HOME ?= $(if $(filter 1,$(CUDA)),$(shell tools/cuda_home.sh cudnn $(CUDA_HOME)))
CUDNN ?= $(if $(CUDNN_HOME),$(CUDA),0)
CUDA_LIB ?= $(if $(filter 1,$(CUDA)),$(shell tools/cuda_home.sh lib $(CUDA_HOME)))
PNG  ?= $(call header,png.h)
HTTP ?= $(call header,microhttpd.h)
DEFLATE ?= $(call header,libdeflate.h)
EXTRAS ?= 1
FMA ?= 1
comma := ,
override LDFLAGS += $(if $(filter 1,$(EXTRAS)),-Wl$(comma)--wrap=GOMP_parallel) # why: extras/fast_cpu/cpu_region.c
$(foreach part,CUDA_HOME MPI CUDA CUDA_LIB NCCL_HOME NCCL CUDNN_HOME CUDNN PNG HTTP DEFLATE,$(eval $(part) := $($(part)))) # looked for once
ifeq ($(EXTRAS)$(DEFLATE),11)
override LDFLAGS += -Wl,--wrap=crc32_z # why: extras/checksum/crc32_deflate.c
LDLIBS += -ldeflate
endif

# in = the files with such a name in the rooms of common/, in rooms within them, in launcher/, and in the extras
in = $(wildcard $(1:%=common/*/%) $(1:%=common/*/*/%) $(1:%=launcher/%) $(if $(filter 1,$(EXTRAS)),$(1:%=extras/*/%)))
PART_mpi  := %_mpi.c
PART_cuda := %_cuda.c $(call in,cuda_*.c)
PART_nccl := %_nccl.c $(call in,nccl_*.c)
PART_cudnn := %_cudnn.c
PART_deflate := %_deflate.c
PART_browser := extras/browser/% # for another machine: make play
# The parts that are left out, as the names of files have them; the extras staging and cudnn need CUDA, too.
WITHOUT   := browser $(if $(filter 1,$(EXTRAS)),,extras) $(if $(filter 1,$(MPI)),,mpi) $(if $(filter 1,$(CUDA)),,cuda) $(if $(filter 1,$(NCCL)),,nccl) \
    $(if $(filter 11,$(CUDA)$(EXTRAS)),,staging) $(if $(filter 11,$(CUDNN)$(EXTRAS)),,cudnn) $(if $(filter 1,$(DEFLATE)),,deflate)
STAND_INS := $(call in,*_no_*.c)
SOURCES   := $(filter-out $(STAND_INS) $(foreach part,$(WITHOUT),$(PART_$(part))),$(call in,*.c)) $(call in,$(WITHOUT:%=*_no_%.c))
KERNELS   := $(if $(filter 1,$(CUDA)),$(call in,cuda_*.cu))
OBJECTS   := $(SOURCES:%.c=$(BUILD)/%.o) $(KERNELS:%.cu=$(BUILD)/%.o)
MPICC   := OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPI_HOME:%=%/bin/)mpicc$(if $(filter 1,$(MPI_ABI)),_abi)
LINK    := $(if $(filter 1,$(MPI)),$(MPICC),$(CC))

# Of CUDA only the runtime is linked in: cuBLAS and NCCL are opened when a GPU is (base/library.h).
NVCC      := $(CUDA_HOME)/bin/nvcc
NVCCFLAGS ?= -O3 -lineinfo -arch=$(CUDA_ARCH) --threads 0 -Wno-deprecated-gpu-targets \
    -Xcompiler -Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics
ifeq ($(CUDA),1)
$(foreach too,$(shell tools/cuda_home.sh $(CUDA_HOME) "$(if $(filter 1,$(NCCL)),$(NCCL_HOME))" | tr ' ' '~'),$(error $(subst ~, ,$(too))))
override CFLAGS += -isystem $(CUDA_HOME)/include
LDLIBS += -L$(CUDA_LIB) -lcudart_static -ldl -lrt -Wl,-rpath,$(CUDA_LIB)
# Where NCCL and cuDNN are packages of their own.
CUDA_APART := $(filter-out /usr $(CUDA_HOME),$(NCCL_HOME) $(CUDNN_HOME))
override CFLAGS += $(CUDA_APART:%=-isystem %/include)
LDLIBS += $(CUDA_APART:%=-Wl,-rpath,%/lib)
endif

# Make has rules of its own, for RCS and others, and would try each of them for each file: half of the time of a start.
MAKEFLAGS += -r

# All cores, unless -j says otherwise. A make that another make calls shares the jobs of that one; and of several targets
# each waits for the one before, since checks must not run at the same time.
ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# What is made, in a line for each room instead of the commands, with the number of files so far; nothing with make -s.
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@$(eval MADE += x)$(if $(filter $(1)$(@D),$(SAID)),,$(eval SAID += $(1)$(@D))printf '[%3d] %-4s %s\n' $(words $(MADE)) $(1) $(@D:$(BUILD)/%=%) &&))

STEPS    := 01 02 03 04 05
# Files that only step 05 needs, and files with a header that only the asides in beyond/ need, form libraries of their
# own. These programs, the doctor and tests link them.
FILES_BEYOND := $(wildcard $(patsubst %.h,%.c,$(wildcard beyond/*.h beyond/*/*.h)))
KERNELS_BEYOND := $(if $(filter 1,$(CUDA)),$(wildcard beyond/*/*.cu))
STAND_INS_BEYOND := $(wildcard beyond/*/*_no_cuda.c)
PART_BEYOND  := $(patsubst %.c,$(BUILD)/%.o,$(FILES_BEYOND) $(if $(KERNELS_BEYOND),,$(STAND_INS_BEYOND))) $(KERNELS_BEYOND:%.cu=$(BUILD)/%.o)
LIB_BEYOND   := $(BUILD)/beyond.a
FILES_05 := $(filter-out %/train.c %/train_reconfigure.c %/ddprun.c,$(wildcard 05_*/*.c 05_*/*/*.c))
PART_05  := $(FILES_05:%.c=$(BUILD)/%.o)
LIB05    := $(BUILD)/lib05.a
PROGRAMS := $(basename $(filter-out $(FILES_BEYOND) $(STAND_INS_BEYOND) $(FILES_05),$(wildcard 0[1-5]_*/*.c 05_*/*/*.c beyond/*/*.c)) $(wildcard tools/*.c))
PROGRAMS := $(filter-out $(if $(filter 0,$(HTTP)),tools/serve tools/watch),$(PROGRAMS))
HTTP_PART := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/http/*.c)) # the server of tools/serve and tools/watch
LIVE     := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/live/*.c)) # parts of tools/watch
DOCTOR   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/doctor/*.c)) # parts of tools/ddp_doctor
# Parts of the programs that use a trained model.
MODEL    := $(filter-out $(if $(filter 1,$(PNG)),%_no_png.c,%/image_png.c),$(wildcard tools/model/*.c))
MODEL    := $(MODEL:%.c=$(BUILD)/%.o)

all: $(PROGRAMS)

.SECONDEXPANSION:
$(STEPS): $$(filter $$@_%,$$(PROGRAMS)) ; @:

beyond: $(filter beyond/%,$(PROGRAMS)) ; @:

02: tools/shards # which chapter 02 calls
04: 03_torchrun_env/ddprun # which starts its ranks, too
05: tools/ddp_doctor # which its messages name

LIBPNG := $(if $(filter 1,$(PNG)),-lpng)
tools/predict tools/serve: private override LDLIBS += $(LIBPNG)
tools/serve tools/watch: private override LDLIBS += -lmicrohttpd
tools/serve tools/watch: $(HTTP_PART)
tools/watch: $(LIVE) $(DOCTOR)
$(BUILD)/tools/serve.o: tools/serve.html # embedded by .incbin
$(BUILD)/tools/watch.o: tools/watch.html # likewise
$(BUILD)/tools/export.o: tools/load_in_pytorch.py # so is this

tools/ddp_doctor: $(DOCTOR)
tools/ddp_doctor tools/watch $(filter 05_%,$(PROGRAMS)): | $(LIB05)
$(filter beyond/%,$(PROGRAMS)): | $(LIB_BEYOND)
tools/evaluate tools/export tools/predict tools/serve tools/watch: | $(BUILD)/tools/libmodel.a
IN_LIBRARIES := $(OBJECTS) $(PART_BEYOND) $(PART_05) $(MODEL)
# A program is linked again when an object in it has changed, not whenever a library has: the linker's map names them.
$(PROGRAMS): %: $(BUILD)/%.o | $(BUILD)/libcommon.a
	$(call say,link) $(LINK) -Wl,-Map=$(BUILD)/$@.map $(LDFLAGS) -o $@ $(filter-out $(IN_LIBRARIES),$(filter %.o,$^)) $(filter-out %/libcommon.a,$|) $(BUILD)/libcommon.a $(LDLIBS)
	@[ ! -f $(BUILD)/$@.map ] || { awk -f tools/linked.awk -v program=$@ $(BUILD)/$@.map >$(BUILD)/$@.linked && $(RM) $(BUILD)/$@.map; }

# make TRY=DIR/NAME DIR/NAME: a program from outside the tree (tools/break.sh, teach/lab.sh).
$(TRY): %: %.c $(LIB_BEYOND) $(LIB05) $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libcommon.a: $(OBJECTS)
$(BUILD)/tools/libmodel.a: $(MODEL)
$(LIB_BEYOND): $(PART_BEYOND)
$(LIB05): $(PART_05)
%.a: $(BUILD)/parts
	$(call say,ar) $(RM) $@ && $(AR) rcs $@ $(filter %.o,$^)

# Changes when a part is switched on or off: then everything is put together anew. A line for each
# choice, as make reads it; the last, with all flags, is there for a change of this file.
CHOICES := EXTRAS FMA MPI MPI_HOME MPI_ABI CUDA NCCL CUDNN PNG HTTP DEFLATE CC MARCH OPENMP CUDA_HOME NCCL_HOME CUDNN_HOME CUDA_ARCH
CHOSEN  += $(foreach choice,$(CHOICES),$(choice)='$($(choice))') NVCCFLAGS='$(value NVCCFLAGS)' \
    ALL='$(CFLAGS)'
$(BUILD)/parts: $(if $(shell printf '%s\n' $(CHOSEN) | cmp -s - $(BUILD)/parts || echo changed),FORCE)
	$(if $(filter __GLIBC__,$(shell echo __GLIBC__ | $(CC) -include stdio.h -E -P -x c - 2>/dev/null)),$(error $(CC) has no glibc, and other C libraries (musl, macOS) are not supported: build in the Debian of the Dockerfile))
	@mkdir -p $(@D) && printf '%s\n' $(CHOSEN) > $@

$(BUILD)/%_mpi.o: %_mpi.c $(BUILD)/parts
	@mkdir -p $(@D)
	$(call say,cc) $(LINK) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/parts
	@mkdir -p $(@D)
	$(call say,cc) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/%.o: %.cu $(BUILD)/parts
	@mkdir -p $(@D)
	$(call say,nvcc) $(NVCC) -I. $(CUDA_APART:%=-isystem %/include) $(NVCCFLAGS) -MMD -MP -c -o $@ $<

# The CPU's kernels need a * b + c in one instruction (ISO C says two), loops that may compute both sides of a ?:, sqrt
# without errno, and the widest vectors there are. For many AMD processors GCC splits a * b + c again where loops sum it
# up, in some tiles and not in others (the param): then the bits of a row would depend on the rows beside it.
KERNEL_FLAGS = $(eval KERNEL_FLAGS := -ffp-contract=$(if $(filter 0,$(FMA)),off,fast) -fno-trapping-math -fno-math-errno \
    $(call accepted,--param=avoid-fma-max-bits=0) $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),-mprefer-vector-width=512))$(KERNEL_FLAGS)
$(BUILD)/common/nn/plain.o $(BUILD)/common/nn/plain_%.o $(BUILD)/extras/fast_cpu/%.o: private override CFLAGS += $(KERNEL_FLAGS)

$(BUILD)/common/data/digits.o: data/digits.csv.gz # embedded by .incbin

$(BUILD)/common/%.o $(BUILD)/launcher/%.o: private override CFLAGS += -Wconversion -Wno-sign-conversion
$(BUILD)/common/base/options.o: VERSION # what --version prints
$(BUILD)/common/base/options.o: private override CPPFLAGS += -DVERSION='"$(file <VERSION)"'

help: # the first paragraph of this file; help-all: the others
	@sed -n '/^#$$/q; s/^# \{0,1\}//p' Makefile

help-all:
	@sed -n '1,/^#$$/d; /^#/!q; s/^# \{0,1\}//p' Makefile

doctor:
	@tools/doctor.sh $(ARGS)

diff-%:
	@tools/stepdiff.sh $*

plot: $(if $(RUN),all)
	@tools/plot.sh $(subst $(comma), ,$(RUN))

lanes:
	@tools/lanes.sh $(TRACE) $(STEP)

docs: all moving
	@docs/pictures/draw.py && tools/docs.py refresh && tests/house/reading.py --write

format:
	clang-format -i $(call in,*.c *.h) $(wildcard 0[1-5]_*/*.[ch] 05_*/*/*.[ch] beyond/*.[ch] beyond/*/*.[ch] tools/*.c tools/*/*.[ch] $(patsubst %,tests/%.[ch],*/* */*/* */*/*/*))

clean:
	$(RM) -r $(BUILD) $(PROGRAMS)

include extras/browser/rules.mk tools/rules.mk teach/rules.mk tests/rules.mk bench/rules.mk
-include $(OBJECTS:.o=.d) $(PROGRAMS:%=$(BUILD)/%.d) $(PROGRAMS:%=$(BUILD)/%.linked) $(DOCTOR:.o=.d) $(HTTP_PART:.o=.d) $(LIVE:.o=.d) $(MODEL:.o=.d) $(PART_BEYOND:.o=.d) $(PART_05:.o=.d)

FORCE:
.PHONY: all beyond help help-all doctor plot lanes docs format clean FORCE $(STEPS)
