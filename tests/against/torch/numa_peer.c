/* Our --numa-binding, for numa.py to set against torchrun's.
 *
 *     numa_peer SYS MODE RANKS CORES    prints the cores of each rank, a line each; CORES: 0,2,3
 * may be used */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/output/numa.h"

int main(int argc, char **argv)
{
    CHECK(argc == 5, "numa_peer SYS MODE RANKS CORES");
    cpu_set_t allowed, chosen;
    CPU_ZERO(&allowed);
    for (char *at = argv[4]; *at != '\0'; at += *at == ',')
        CPU_SET(strtoul(at, &at, 10), &allowed);
    const int num_ranks = atoi(argv[3]);
    NumaMap *map = mem_calloc(1, sizeof *map);
    numa_read(map, argv[1], &allowed, num_ranks);
    for (int rank = 0; rank < num_ranks; rank++) {
        numa_choose(map, numa_mode(argv[2]), rank, &chosen);
        for (size_t core = 0; core < CPU_SETSIZE; core++)
            if (CPU_ISSET(core, &chosen))
                printf("%zu ", core);
        printf("\n");
    }
    free(map);
    return EXIT_SUCCESS;
}
