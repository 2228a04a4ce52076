# The workshop: labs, traps and quizzes, whose state is in lab/ (teach/progress.py).

# If there is such a lab, trap or quiz, all is built first. The 0 of a chapter may be left out: lab-2b is lab-02b.
built_for = $(if $(wildcard $(foreach name,$(2) 0$(2),teach/$(1)/$(name).txt)),all)

# The labs: the program before a step, to be turned into the step. Make does not fail if parts are missing.
lab-%: $$(call built_for,lab,$$*)
	@teach/lab.sh $* || [ $$? -ne 2 ]

# make check-lab LAB=02b: that one; else the one that was changed last. (The tests have their labs in another folder.)
check-lab: $(if $(wildcard $(addsuffix /*/train.c,lab $(LAB))),all) # else nothing is begun
	@teach/lab.sh check || :

lab:
	@teach/lab.sh list

trap:
	@teach/trap.py list

quiz:
	@teach/quiz.py list

# The clinic: broken programs, and their explanations (docs/traps.md).
trap-%: $$(call built_for,traps,$$*)
	@teach/trap.py $*

check-trap: all
	@teach/trap.py check || [ $$? -ne 2 ]

hint:
	@teach/trap.py hint

# Questions with an experiment each; the answers come from the terminal or a pipe.
quiz-%: $$(call built_for,quiz,$$*)
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

.PHONY: lab trap quiz check-lab check-trap hint progress room-check slides rehearse
