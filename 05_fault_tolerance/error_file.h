/* error_file.h - the root cause of a failed job, for the program that started this launcher. */
#ifndef FAULT_TOLERANCE_ERROR_FILE_H
#define FAULT_TOLERANCE_ERROR_FILE_H

#include "common/launch/failure.h"

/* Writes to path, the launcher's own TORCHELASTIC_ERROR_FILE, what torchrun would write: the
 * worker's error file if that is PyTorch's, else the failure in the same form. NULL: nowhere. A
 * warning if that fails. */
void error_file_write(const char *path, const Failure *root, const Logs *logs);

#endif
