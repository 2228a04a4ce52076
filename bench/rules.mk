# Benchmarks: programs that measure, kept apart from the tests that check.
BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))

$(BENCHES): %: %.o $(BUILD)/libcommon.a
	$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BENCHES:=.d)
.PRECIOUS: $(BENCHES:=.o)

# How much of the communication is hidden, by bucket size (a table, build/overlap.png and .svg).
overlap: all
	@bench/overlap.sh

# What more ranks bring, and what an all-reduce over 1,024 would take (tables, pictures in build/).
scaling: 03 $(BUILD)/bench/collectives
	@bench/scaling.sh
	@bench/alpha_beta.sh
.PHONY: overlap scaling
