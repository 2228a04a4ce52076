# The workshop: labs, traps and quizzes, whose state is in lab/ (teach/progress.py).

# If there is such a lab, trap or quiz, what it needs is built first. The 0 of a chapter may be left out: lab-2b is lab-02b.
built_for = $(if $(wildcard $(foreach name,$(2) 0$(2),teach/$(1)/$(name).txt)),all)

# A lab needs the step's own programs, and from 03 on the launcher and the nodes on which the judge starts them; a library lab
# is tried with several.
lab_is = $(patsubst teach/lab/%.txt,%,$(wildcard $(foreach name,$(1) 0$(1),teach/lab/$(name).txt)))
library_labs := $(notdir $(patsubst %/functions.txt,%,$(wildcard teach/lab/*/functions.txt)))
lab_needs = $(if $(1),$(if $(filter $(library_labs),$(1)),all,$(if $(filter zero% localsgd diloco tensor%,$(1)),02 beyond,$(if $(filter 02%,$(1)),02,$(sort 03 04 $(1))))))

# The labs: the program before a step, to be turned into the step. Make does not fail if parts are missing.
lab-%: $$(call lab_needs,$$(call lab_is,$$*))
	@teach/wrapped.sh teach/lab.sh $* || [ $$? -ne 2 ]

# make check-lab LAB=02b: that one; else the one that was changed last. (The tests have their labs in another folder.)
lab_folder = $(if $(call lab_is,$(LAB)),lab,$(or $(LAB),lab))
lab_begun = $(filter-out $(lab_folder)/trap_%,$(wildcard $(foreach name,$(or $(call lab_is,$(LAB)),*),\
    $(lab_folder)/$(name)/train.c $(foreach library,$(filter $(subst *,%,$(name)),$(library_labs)),$(lab_folder)/$(library)/*.c))))
lab_latest = $(if $(lab_begun),$(notdir $(patsubst %/,%,$(dir $(firstword $(shell ls -t $(lab_begun)))))))
check-lab: $(if $(filter check-lab,$(MAKECMDGOALS)),$(call lab_needs,$(call lab_is,$(lab_latest))))
	@teach/wrapped.sh teach/lab.sh check || :

# make progress | head: SIGPIPE ends the program that prints, and that is no failure.
left_early = [ $$? -eq 141 ]

# Library labs: what the learner wrote, MINE=lab/ring/ring.c (several: make mine), stands before the library when TRIED=DIR/train
# is linked from a step's program, OF=03_torchrun_env/train; a member of the library whose functions are all there is not taken.
# Only the functions in functions.txt are seen outside of the learner's file; link.txt has options for the linker.
lab_room = teach/lab/$(notdir $(patsubst %/,%,$(dir $(1))))
$(MINE:.c=.o): %.o: %.c $(BUILD)/libcommon.a
	$(call say,cc) $(CC) $(CPPFLAGS) $(CFLAGS) -Werror=implicit-function-declaration -c -o $@ $< && \
	    objcopy --keep-global-symbols=$(call lab_room,$<)/functions.txt $@
$(TRIED): $(MINE:.c=.o) $(foreach file,$(MINE),$(patsubst %.c,$(BUILD)/%.o,$(wildcard $(call lab_room,$(file))/wrap.c))) \
    $(BUILD)/$(OF).o $(LIB_BEYOND) $(LIB05) $(BUILD)/libcommon.a
	$(call say,link) $(LINK) $(LDFLAGS) $(foreach file,$(MINE),$(addprefix @,$(wildcard $(call lab_room,$(file))/link.txt))) -o $@ $^ $(LDLIBS)

-include $(OF:%=$(BUILD)/%.d)

# The harness, with sanitizers where there are some. The learner's file allocates with the functions in redefine.syms.
$(BUILD)/checked/sanitize.mk: $(BUILD)/parts
	@mkdir -p $(@D) && echo 'int main(void) { return 0; }' | $(CC) -fsanitize=address,undefined -o /dev/null -x c - 2>/dev/null && \
	    sanitize='-fsanitize=address,undefined -fno-sanitize-recover=undefined'; echo "SANITIZE := $$sanitize" >$@
ifneq ($(filter %.try,$(MAKECMDGOALS)),)
include $(BUILD)/checked/sanitize.mk # which make builds first
CHECKED := -std=c11 -D_GNU_SOURCE -Wall -Wextra -MMD -MP -O1 -g $(OPENMP) $(SANITIZE)
endif
$(BUILD)/checked/%.o: %.c $(BUILD)/parts
	@mkdir -p $(@D)
	$(call say,cc) $(CC) $(CPPFLAGS) $(CHECKED) -MF $(@:.o=.d) -MT $@ -c -o $@.$$$$ $< && mv $@.$$$$ $@ # two checks may build it at once
# lab-reconfigure's is linked with the simulator of tests/simulation: its tasks have stacks of their own, so without sanitizers.
# It has no constructors: the learner's code runs in the harness's children only, which then says the judge's number itself.
simulated := $(filter %/reconfigure/reconfigure.c reconfigure/reconfigure.c,$(MINE))
$(simulated:.c=.try): %.try: %.c $(BUILD)/teach/lab/reconfigure/try.o $$(SIMULATOR) $(LIB05) $(BUILD)/libcommon.a
	$(call say,cc) $(CC) $(CPPFLAGS) -std=c11 -D_GNU_SOURCE -Wall -Wextra -O1 -g -Werror=implicit-function-declaration -c -o $@.o $< && \
	    objcopy --keep-global-symbols=$(call lab_room,$<)/functions.txt $(addprefix -R .,init_array* fini_array* preinit_array* ctors* dtors*) $@.o && \
	    $(LINK) $(LDFLAGS) $(SEAM) -o $@ $@.o $(filter-out %.c,$^) $(LDLIBS)
lab_parts = $(patsubst %.c,$(BUILD)/checked/%.o,$(wildcard $(addprefix $(call lab_room,$(1))/,try.c phases.c disk.c)))
$(patsubst %.c,%.try,$(filter-out $(simulated),$(MINE))): %.try: %.c $(foreach file,$(MINE),$(call lab_parts,$(file))) $(BUILD)/checked/teach/lab/ranks.o \
    $(BUILD)/checked/teach/lab/served.o $(LIB05) $(BUILD)/libcommon.a
	$(call say,cc) $(CC) $(CPPFLAGS) $(CHECKED) -Werror=implicit-function-declaration -c -o $@.o $< && \
	    objcopy --keep-global-symbols=$(call lab_room,$<)/functions.txt --redefine-syms=teach/lab/redefine.syms $@.o && \
	    $(LINK) $(CHECKED) -o $@ $@.o $(filter-out %.c,$^) $(LDLIBS)
-include $(wildcard $(BUILD)/checked/teach/lab/*.d $(BUILD)/checked/teach/lab/*/*.d $(BUILD)/teach/lab/*/*.d)

# Step 03, or 05, with all that is done of the library labs.
mine: 03 05
	+@teach/mine.sh

lab:
	@teach/wrapped.sh teach/lab.sh list || $(left_early)

trap:
	@teach/trap.py list || $(left_early)

quiz:
	@teach/quiz.py list || $(left_early)

# The clinic: broken programs, and their explanations (docs/traps.md).
trap-%: $$(call built_for,traps,$$*)
	@teach/wrapped.sh teach/trap.py $*

check-trap: all
	@teach/wrapped.sh teach/trap.py check || [ $$? -ne 2 ]

hint:
	@teach/wrapped.sh teach/trap.py hint

# Questions with an experiment each; the answers come from the terminal or a pipe.
quiz-%: $$(call built_for,quiz,$$*)
	@teach/quiz.py $*

progress:
	@teach/wrapped.sh teach/progress.py || $(left_early)

# One line says whether this machine is ready. It calls make itself, so that a build that fails is one line, too.
room-check:
	@teach/room_check.sh

# For teachers: the slides, and everything that the plan asks people to type.
slides:
	@teach/slides.py && teach/handout.py

rehearse: all
	@teach/plan.py run

# For a course: the repository without the solutions of LABS="02b ring" (docs/teach/class.md).
student-tree:
	@$(if $(OUT),,echo 'make student-tree: say where to: make student-tree OUT=DIR [LABS="02b ring"]' >&2 && exit 2;) teach/class/student_tree.py '$(OUT)' $(LABS)

reset-%:
	@teach/progress.py reset $*

# A course (docs/teach/class.md): once, what the grader builds beside a submission; the zip for Gradescope.
grader: all
	@teach/class/grade --prepare

autograder:
	@teach/class/autograder.py $(or $(OUT),autograder.zip) $(LABS)

.PHONY: mine lab trap quiz check-lab check-trap hint progress room-check slides rehearse student-tree grader autograder
