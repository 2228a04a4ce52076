# The workshop: labs, traps and quizzes, whose state is in lab/ (teach/progress.py).

# The labs: the program before a step, to be turned into the step. Make does not fail if parts are missing.
lab-%: $$(if $$(wildcard teach/lab/$$*.txt),all) # else there is no such lab
	@teach/lab.sh $* || [ $$? -ne 2 ]

check-lab: all
	@teach/lab.sh check || :

# The clinic: broken programs, and their explanations (docs/traps.md).
trap-%: $$(if $$(wildcard teach/traps/$$*.txt),all) # else there is no such trap
	@teach/trap.py $*

check-trap: all
	@teach/trap.py check || [ $$? -ne 2 ]

hint:
	@teach/trap.py hint

# Questions with an experiment each; the answers come from the terminal or a pipe.
quiz-%: $$(if $$(wildcard teach/quiz/$$*.txt),all) # else there is no such quiz
	@teach/quiz.py $*

progress:
	@teach/progress.py

# One line says whether this machine is ready. It calls make itself, so that a build that fails is one line, too.
room-check:
	@teach/room_check.sh

# For teachers: the slides, and everything that the plan asks people to type.
slides:
	@teach/slides.py && teach/handout.py

rehearse: all
	@teach/plan.py run

reset-%:
	@teach/progress.py reset $*

.PHONY: check-lab check-trap hint progress room-check slides rehearse
