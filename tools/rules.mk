# A step's program beside its twin in PyTorch.
twin-%:
	@tools/twin.py $*

# The book as a web site: build/site/index.html, to be opened from there or served by anything.
site:
	@BUILD=$(BUILD) tools/site/site.sh

.PHONY: site
