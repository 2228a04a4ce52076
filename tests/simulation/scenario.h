/* scenario.h - shared by simulate.c and the scenarios in their own files. */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

extern bool has_faults; // true if this seed has faults
void complain(const char *what, int64_t value); // the seed fails; only the first one counts

const char *run_reconfigure(void); // reconfigure.c
const char *run_network(void); // network.c
#endif
