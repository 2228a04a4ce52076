# The workshop: labs, traps and quizzes, whose state is in lab/ (teach/progress.py).

# If there is such a lab, trap or quiz, what it needs is built first. The 0 of a chapter may be left out: lab-2b is lab-02b.
built_for = $(if $(wildcard $(foreach name,$(2) 0$(2),teach/$(1)/$(name).txt)),all)

# A lab needs the step's own programs, and from 03 on the launcher and the nodes on which the judge starts them.
lab_is = $(patsubst teach/lab/%.txt,%,$(wildcard $(foreach name,$(1) 0$(1),teach/lab/$(name).txt)))
lab_needs = $(if $(1),$(if $(filter zero%,$(1)),02 beyond,$(if $(filter 02%,$(1)),02,$(sort 03 04 $(1)))))

# The labs: the program before a step, to be turned into the step. Make does not fail if parts are missing.
lab-%: $$(call lab_needs,$$(call lab_is,$$*))
	@teach/lab.sh $* || [ $$? -ne 2 ]

# make check-lab LAB=02b: that one; else the one that was changed last. (The tests have their labs in another folder.)
lab_folder = $(if $(call lab_is,$(LAB)),lab,$(or $(LAB),lab))
lab_begun = $(filter-out $(lab_folder)/trap_%,$(wildcard $(lab_folder)/$(or $(call lab_is,$(LAB)),*)/train.c))
lab_latest = $(if $(lab_begun),$(notdir $(patsubst %/train.c,%,$(firstword $(shell ls -t $(lab_begun))))))
check-lab: $(if $(filter check-lab,$(MAKECMDGOALS)),$(call lab_needs,$(call lab_is,$(lab_latest))))
	@teach/lab.sh check || :

# make progress | head: SIGPIPE ends the program that prints, and that is no failure.
left_early = [ $$? -eq 141 ]

lab:
	@teach/lab.sh list || $(left_early)

trap:
	@teach/trap.py list || $(left_early)

quiz:
	@teach/quiz.py list || $(left_early)

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
	@teach/progress.py || $(left_early)

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
