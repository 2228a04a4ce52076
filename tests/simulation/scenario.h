/* scenario.h - what simulate.c shares with a scenario in a file of its own. */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

extern bool has_faults; // in this seed
void complain(const char *what, int64_t value); // the seed fails; only the first one counts

const char *run_reconfigure(void); // reconfigure.c
const char *run_network(void); // network.c
#endif
