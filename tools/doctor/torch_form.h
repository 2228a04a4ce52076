/* torch_form.h - flight records in the form of PyTorch's Flight Recorder, for its torchfrtrace. */
#ifndef TOOLS_DOCTOR_TORCH_FORM_H
#define TOOLS_DOCTOR_TORCH_FORM_H

#include "tools/doctor/attempt.h"

/* Writes a file for each rank with a record to the folder, which is created: rank_0, rank_1, ...
 * Replaces such files. Returns how many; dies if one cannot be written. What the form has no place
 * for is left out: hosts, errors, waits for disks, and send and recv. */
int torch_form_write(const Attempt *attempt, const char *folder);

#endif
