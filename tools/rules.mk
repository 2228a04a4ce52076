# A step's program beside its twin in PyTorch.
twin-%:
	@tools/twin.py $*

# The book as a web site: build/site/index.html, to be opened from there or served by anything.
site:
	@BUILD=$(BUILD) tools/site/site.sh

# How each C file is compiled, for clangd and editors.
COMPILED = [inputs | select(test(" -c -o \\S+ \\S+\\.c$$")) | {directory: $$directory, command: ., file: (split(" ") | last)}]
compile_commands.json: FORCE
	@$(MAKE) -Bns all | jq -Rn --arg directory "$(CURDIR)" '$(COMPILED)' > $@.new && mv $@.new $@

# What clang-format would change, and what shellcheck finds; both must be installed.
lint:
	@clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h')
	@shellcheck $$(git ls-files '*.sh' .ci/run)

.PHONY: site lint
