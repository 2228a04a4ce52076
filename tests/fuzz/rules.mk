# The fuzzers (world.h, targets.h): make check-fuzz lets libFuzzer search each target for its share
# of FUZZ_SECONDS; make test runs what is kept in corpus/ and what seeds.py makes, with any compiler
# (tests/fuzz/test_fuzz.c).

FUZZ_SOURCES := $(filter-out %/engine.c %/mutate.c %/test_fuzz.c,$(wildcard tests/fuzz/*.c))
FUZZ_OBJECTS := $(FUZZ_SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/tests/common/comm/store/store_ops.o $(DOCTOR)
FUZZ_WRAPPED := exit _exit poll __poll_chk ppoll __ppoll_chk clock_gettime getenv setenv sleep nanosleep accept4 \
    net_connect net_listen getaddrinfo seconds_awake seconds_awake_at_tick poll_awake pthread_mutex_lock \
    pthread_mutex_unlock thread_start getrandom getpid glob gpus_count safetensors_checksum json_loadb json_load_file
FUZZ_LDFLAGS := $(FUZZ_WRAPPED:%=-Wl,--wrap=%)

$(BUILD)/tests/fuzz/test_fuzz: $(BUILD)/tests/fuzz/test_fuzz.o $(FUZZ_OBJECTS) $(LIB05) $(BUILD)/tools/libmodel.a $(BUILD)/libcommon.a
	$(LINK) $(LDFLAGS) $(FUZZ_LDFLAGS) -o $@ $^ $(LDLIBS) $(LIBPNG) -lcmocka

# Only in a build that tests/fuzz/fuzz.bats makes: with clang, sanitizers and coverage.
$(BUILD)/engine: $(BUILD)/tests/fuzz/engine.o $(BUILD)/tests/fuzz/mutate.o $(FUZZ_OBJECTS) $(LIB05) $(BUILD)/tools/libmodel.a $(BUILD)/libcommon.a
	$(CC) $(LDFLAGS) $(FUZZ_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS) $(LIBPNG)

check-fuzz:
	@RERUN=never TEST_TIMEOUT=$$((2 * $${FUZZ_SECONDS:-180} + 1800)) $(MAKE) -s test TESTS=tests/fuzz/fuzz.bats; status=$$?; \
	    sed -n '/^#.* runs, /p' $${TAP_DIR:-build/tap}/tests/fuzz/fuzz.bats.tap; exit $$status

# The README's two commands on three fresh machines (root; tests/bare_machine.sh).
check-bare:
	@tests/bare_machine.sh

-include $(FUZZ_OBJECTS:.o=.d) $(BUILD)/tests/fuzz/engine.d $(BUILD)/tests/fuzz/mutate.d
.PHONY: check-fuzz check-bare
