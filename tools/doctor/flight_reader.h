/* flight_reader.h - reads a flight record from its file, and describes its calls. */
#ifndef TOOLS_DOCTOR_FLIGHT_READER_H
#define TOOLS_DOCTOR_FLIGHT_READER_H

#include "05_fault_tolerance/checks/flight_record.h"

/* Reads a record and checks it: an impossible entry becomes an empty slot. Returns NULL, with the
 * reason in `reason`, if the file is not a record. Impossible progress reads as none. Free it with
 * free(). Local. */
FlightRecord *flight_record_read(const char *path, char *reason, size_t bytes);

/* Writes "all_reduce #12 of 18432 float32 (mean)", as collective_describe does. Returns text. */
char *flight_entry_describe(const FlightEntry *entry, char text[DESCRIPTION_BYTES]);

#endif
