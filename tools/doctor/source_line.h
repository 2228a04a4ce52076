/* source_line.h - from the addresses in a flight record to lines of the source. */
#ifndef TOOLS_DOCTOR_SOURCE_LINE_H
#define TOOLS_DOCTOR_SOURCE_LINE_H

#include "05_fault_tolerance/checks/flight_record.h"

#define SOURCE_LINE_BYTES 96

/* Finds where a call was made: "train.c:26", or "train.c:26 (ddp.c:76)" if ddp.c made it on behalf
 * of train.c. Runs addr2line (of binutils); if that fails, because it is missing or the program has
 * been rebuilt, the text is "train+0x5d2f". If the call is a function's last statement, the
 * compiler may drop that function's frame; then the line is that of its caller. Writes to text and
 * returns it. Local. */
char *source_line(const FlightRecord *record, const FlightEntry *entry,
                  char text[SOURCE_LINE_BYTES]);

#endif
