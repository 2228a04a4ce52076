/* error_file.h - the root cause of a failed job, for the program that started this launcher. */
#ifndef LAUNCHER_ERROR_FILE_H
#define LAUNCHER_ERROR_FILE_H

#include "launcher/launch.h"

/* Writes the error file that torchrun would write to path, the launcher's own
 * TORCHELASTIC_ERROR_FILE: the worker's error file if PyTorch wrote it, else the failure in the
 * same form. Does nothing if path is NULL. Warns on failure. */
void error_file_write(const char *path, const Failure *root, const Logs *logs);

#endif
