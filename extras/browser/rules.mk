# make play: the programs of steps 01 and 02 for a browser, as one module; docs/moving/play.html runs them. Needs clang, lld,
# wasi-libc, libclang-rt for wasm32, and binaryen: ./setup.sh --play.
PLAY      := $(BUILD)/play
WASM_CC   ?= clang
WASM_OPT  ?= wasm-opt
PLAY_MAIN := 01_single_gpu/train=01 02_multi_gpu_spawn/train_a_spawn=02a 02_multi_gpu_spawn/train_b_all_reduce=02b 02_multi_gpu_spawn/train_c_sampler=02c 02_multi_gpu_spawn/train=02
PLAY_FILES := $(foreach main,$(PLAY_MAIN),$(firstword $(subst =, ,$(main)))) extras/browser/backend_browser extras/browser/browser \
    $(addprefix common/,$(addprefix base/,args base_no_cuda base_no_extras divergence folder host log memory options rng) \
    $(addprefix comm/,collective comm_no_extras comm_no_mpi comm_no_nccl comm_no_staging ddp process_groups reduce_ops tcp/tcp_algorithms) \
    $(addprefix data/,data_no_extras dataloader dataset digits sampler) \
    $(addprefix nn/,device model nn_no_cuda nn_no_extras optim plain plain_layers) \
    $(addprefix save/,checkpoint metrics safetensors save_no_extras))
PLAY_OBJECTS := $(PLAY_FILES:%=$(PLAY)/%.o) $(PLAY)/digits_data.o
PLAY_CFLAGS  := --target=wasm32-wasi -O3 -msimd128 -std=c11 -D_GNU_SOURCE -fopenmp-simd -ffunction-sections -fdata-sections -MMD -MP \
    -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID -isystem extras/browser/include -I. -include extras/browser/system.h \
    -DVERSION='"$(file <VERSION)"' -D'__asm__(x)=' -Wall -Wno-unknown-pragmas

# A rank that waits returns from all its calls, and enters them again (asyncify). What never waits is left as it is.
PLAY_CALM := plain_*,die,usage_error,log_*,mem_*,cpu_*,json*,digits_*,dataset_*,safetensors_*,checkpoint_*,option*,args_parse,vfprintf,printf_core,model_init,optim_init

play: $(PLAY)/ranks.js
	@echo "play: open docs/moving/play.html in a browser"

$(foreach main,$(PLAY_MAIN),$(eval $(PLAY)/$(firstword $(subst =, ,$(main))).o: private PLAY_CFLAGS += -include extras/browser/struck.h -Dmain=main_$(lastword $(subst =, ,$(main)))))
$(PLAY)/common/save/save_no_extras.o: private PLAY_CFLAGS += -Dwatch_init=no_watch_init -Dwatch_step=no_watch_step # browser.c has them

$(PLAY)/%.o: %.c extras/browser/rules.mk
	@mkdir -p $(@D)
	$(call say,wasm) $(WASM_CC) $(PLAY_CFLAGS) -c -o $@ $<

$(PLAY)/digits_data.o: extras/browser/digits.s data/digits.csv.gz
	@mkdir -p $(@D) && gzip -dc data/digits.csv.gz >$(PLAY)/digits.csv
	$(call say,wasm) cd $(PLAY) && $(WASM_CC) --target=wasm32-wasi -c -o $(abspath $@) $(abspath $<)

$(PLAY)/ranks.wasm: $(PLAY_OBJECTS)
	$(call say,link) $(WASM_CC) --target=wasm32-wasi -mexec-model=reactor -o $@ $^ -lwasi-emulated-signal -lwasi-emulated-getpid \
	    -Wl,--export=__main_void,--export=malloc,--gc-sections,-z,stack-size=1048576,--allow-undefined

$(PLAY)/ranks.js: $(PLAY)/ranks.wasm
	$(call say,wasm) $(WASM_OPT) --enable-simd --enable-bulk-memory --asyncify --pass-arg=asyncify-imports@env.page_receive \
	    --pass-arg=asyncify-removelist@'$(PLAY_CALM)' -O2 --strip-debug --strip-producers -o $(PLAY)/woven.wasm $<
	@{ printf 'const RANKS = "' && gzip -9nc $(PLAY)/woven.wasm | base64 -w0 && printf '";\n'; } >$@.new && mv $@.new $@

-include $(PLAY_OBJECTS:.o=.d)
.PHONY: play
