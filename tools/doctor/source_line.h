/* source_line.h - from the addresses in a flight record to lines of the source. */
#ifndef TOOLS_DOCTOR_SOURCE_LINE_H
#define TOOLS_DOCTOR_SOURCE_LINE_H

#include "05_fault_tolerance/flight_record.h"

#define SOURCE_LINE_BYTES 96

/* Where a call was made: "train.c:26", or "train.c:26 (ddp.c:76)" for what train.c caused and ddp.c
 * did. Asks addr2line (of binutils); where that cannot tell, because it is not there or the program
 * was built anew since, "train+0x5d2f". A function whose last deed is the call is left for it by
 * the compiler: then the line is that of its own caller. Writes to text, returns it. Local. */
char *source_line(const FlightRecord *record, const FlightEntry *entry,
                  char text[SOURCE_LINE_BYTES]);

#endif
