# Benchmarks: programs that measure, kept apart from the tests that check.
BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))

$(BENCHES): %: %.o $(BUILD)/libcommon.a
	$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BENCHES:=.d)
.PRECIOUS: $(BENCHES:=.o)

# How much of the communication is hidden, by bucket size (a table, build/overlap.png and .svg).
overlap: all
	@bench/overlap.sh
.PHONY: overlap
