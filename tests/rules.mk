# The tests: C programs with cmocka (tests/test_*.c) and command lines with bats (tests/*.bats), all
# run by prove. TESTS=PATTERN picks some: make test TESTS=tests/test_ring.c

TEST_SOURCES  := $(wildcard tests/test_*.c)
TEST_PROGRAMS := $(TEST_SOURCES:%.c=$(BUILD)/%)
TESTS         ?= $(TEST_SOURCES) $(wildcard tests/*.bats)
PROVE         := BUILD=$(BUILD) prove --timer --exec tests/tap.sh

$(TEST_PROGRAMS): %: %.o $(BUILD)/libcommon.a
	$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

$(BUILD)/tests/test_collectives: $(BUILD)/tests/collective_cases.o
$(addprefix $(BUILD)/tests/test_,collectives process_group ddp): $(BUILD)/tests/ranks.o

test: all $(TEST_PROGRAMS)
	@$(PROVE) $(TESTS)

-include $(TEST_PROGRAMS:=.d)
.PRECIOUS: $(TEST_PROGRAMS:=.o)
.PHONY: test
