# A step's program beside its twin in PyTorch.
twin-%:
	@tools/twin.py $*

# The book as a web site: build/site/index.html, to be opened from there or served by anything. SITE_URL, where it will be
# served, makes the addresses of the pictures whole that others see where a page is shared. With the programs of make play
# where something compiles them.
site:
	@if . tools/parts.sh && wasi >/dev/null && program wasm-opt >/dev/null; then $(MAKE) -s play >/dev/null; \
	    else echo 'site: without the programs of docs/moving/play.html: ./setup.sh --play gets what compiles them' >&2; fi
	@BUILD=$(BUILD) tools/site/site.sh

# The pictures that move, docs/moving/*.html: records real runs, and puts the recordings into the pages.
moving: 01 02 03 05 $(BUILD)/tools/moving/messages $(BUILD)/bench/payoff
	@BUILD=$(BUILD) tools/moving/record.py && tools/moving/cards.py
$(BUILD)/tools/moving/messages: %: %.o $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) -Wl,--wrap=exchange,--wrap=message_send,--wrap=message_receive -o $@ $^ $(LDLIBS)
-include $(BUILD)/tools/moving/messages.d

# A recording of a terminal, docs/cast.svg: a rank is killed, and the job ends with the same bytes.
cast: 02 05
	@tools/cast.py

# How each C file is compiled, for clangd and editors.
COMPILED = [inputs | select(test(" -c -o \\S+ \\S+\\.c$$")) | {directory: $$directory, command: ., file: (split(" ") | last)}]
compile_commands.json: FORCE
	@$(MAKE) -Bns all | jq -Rn --arg directory "$(CURDIR)" '$(COMPILED)' > $@.new && mv $@.new $@

# What clang-format would change, and what shellcheck and ruff (ruff.toml) find. One that is missing is named.
checker = command -v $(firstword $(1)) >/dev/null || { echo "not checked: $(firstword $(1)) is missing" && exit; }; $(1)
lint:
	@$(call checker,clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h'))
	@$(call checker,shellcheck $$(git ls-files '*.sh' .ci/run))
	@$(call checker,ruff check --quiet)

# The launcher and the tools for all users of a machine: make install PREFIX=/usr/local DESTDIR=; make uninstall.
install: all
install uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install.sh $@

.PHONY: site moving cast lint install uninstall
