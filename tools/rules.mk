# The workshop: labs, traps and quizzes, whose state is in lab/ (tools/progress.py).

# A step's program beside its twin in PyTorch.
twin-%:
	@tools/twin.py $*

# The labs: the program before a step, to be turned into the step; what is missing is no error of make.
lab-%: $$(if $$(wildcard tools/lab/$$*.txt),all) # else there is no such lab
	@tools/lab.sh $* || [ $$? -ne 2 ]

check-lab: all
	@tools/lab.sh check || :

# The clinic: broken programs, and what is said about them (docs/traps.md).
trap-%: $$(if $$(wildcard tools/traps/$$*.txt),all) # else there is no such trap
	@tools/trap.py $*

check-trap: all
	@tools/trap.py check || [ $$? -ne 2 ]

hint:
	@tools/trap.py hint

# Questions with an experiment each; the answers come from the terminal or a pipe.
quiz-%: $$(if $$(wildcard tools/quiz/$$*.txt),all) # else there is no such quiz
	@tools/quiz.py $*

progress:
	@tools/progress.py

# One line says whether this machine is ready. It calls make itself, so that a build that fails is one line, too.
room-check:
	@tools/room_check.sh

# For those who teach (docs/teach): the slides, and all that the plan has people type.
slides:
	@tools/slides.py && tools/handout.py

rehearse: all
	@tools/plan.py run

reset-%:
	@tools/progress.py reset $*

# The book as a web site: build/site/index.html, to be opened from there or served by anything.
site:
	@BUILD=$(BUILD) tools/site/site.sh

.PHONY: check-lab check-trap hint progress room-check slides rehearse site
