/* The option of the simulated network: in a file of its own, since step 01 knows it too. */
#include "extras/simulated_network/network_options.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/log.h"
#include "common/base/options.h"

#define LEAST_RATE 1e5 // bits a second
#define MOST_RATE 1e12

const char *simulated_rate;

double network_rate(const char *text)
{
    static const struct {
        const char *name;
        double bits;
    } units[] = { { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 } };
    char *unit;
    const double number = strtod(text, &unit);
    const bool plain = unit != text && strspn(text, "0123456789.") == (size_t)(unit - text);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (plain && strcasecmp(unit, units[i].name) == 0)
            return number * units[i].bits;
    return NAN;
}

static void check_rate(const char *text, const char *origin)
{
    const double rate = network_rate(text);
    if (!(rate >= LEAST_RATE && rate <= MOST_RATE))
        usage_error("%s %s: it is a rate from 100kbit to 1000gbit, as in 3gbit, or off", origin,
                    text);
}

const OptionGroup network_options = {
    .heading = HEADING_RANKS,
    .fields = &simulated_rate,
    .rows =
        (const Option[]){
            { "simulate-network", "RATE", "off", STEP_SPAWN, OPTION_OPTIONAL, 0,
              .help = "no node sends or receives faster (tcp), as in 3gbit", .check = check_rate },
            { 0 },
        },
};
