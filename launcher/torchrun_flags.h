/* torchrun_flags.h - torchrun's flags that step 03's launcher leaves out, since few need them.
 *
 *   --local-addr           node 0's address for the ranks, unless node 0 is named or a port is
 *   --run-path             Python runs the program by runpy.run_path
 *   --virtual-local-rank   LOCAL_RANK is 0 for all ranks: each sees one GPU, its own
 *   --signals-to-handle    end on these signals alone, and pass them on as they are
 *   --logs-specs           default is the only one; others are classes of Python
 *
 * As under torchrun, Python runs a path that cannot be executed: a file of any name, or a folder
 * with a __main__.py. */
#ifndef LAUNCHER_TORCHRUN_FLAGS_H
#define LAUNCHER_TORCHRUN_FLAGS_H

#include <signal.h>

#include "launcher/launch.h"

typedef struct {
    const char *signals_to_handle; // a list of names; NULL for the default
    sigset_t signals; // these signals
    bool virtual_local_rank;
    char *gpus; // the launcher's CUDA_VISIBLE_DEVICES, or NULL; for virtual_local_rank
    char *error_file; // the launcher's TORCHELASTIC_ERROR_FILE, or NULL
} TorchrunFlags;

/* Reads, after flags_parse, the flags above, and changes the others accordingly. Ends the process
 * with status 2 and one line on an invalid one. */
void torchrun_flags_read(TorchrunFlags *torchrun, Flags *flags);
void torchrun_flags_free(TorchrunFlags *torchrun);

/* Returns the signals for workers_init. */
const sigset_t *torchrun_flags_signals(const TorchrunFlags *torchrun);

/* Changes what step 03 has set in the environment of the next worker. */
void torchrun_flags_set_environment(const TorchrunFlags *torchrun, int local_rank);

#endif
