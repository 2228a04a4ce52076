/* network_options.h - how fast the simulated network is. */
#ifndef EXTRAS_SIMULATED_NETWORK_NETWORK_OPTIONS_H
#define EXTRAS_SIMULATED_NETWORK_NETWORK_OPTIONS_H

extern const char *simulated_rate; // as the user wrote it; NULL: --simulate-network is off

/* Bits a second of "3gbit", "2.5Gbit" or "100mbit", NAN: it is no rate. */
double network_rate(const char *text);

#endif
