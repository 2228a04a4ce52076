/*
 * Memory is nearest to the cores of its NUMA node, and so is a GPU. Linux puts a page where it is
 * first written: a rank that stays on one node's cores has its memory there, too.
 *
 * The modes are torchrun's (torch/numa/binding.py), and choose the same cores: those of the node of
 * the rank's GPU; of all nodes of that socket; a share of the node's cores that no other rank has;
 * the cores that share one cache of the highest level. torchrun needs a GPU for each rank. Here
 * ranks without GPUs are spread over the nodes, neighbors together.
 */
#include "extras/output/numa.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define CPU "/devices/system/cpu/cpu%d/"

static cpu_set_t *plan; // indexed by local rank; NULL if there is no binding

/* ---- reading /sys ---- */

/* Reads the first line of a file, "" if there is none. */
static void read_line(const char *path, char *line, int bytes)
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    if (file != NULL && fgets(line, bytes, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
}

static int read_number(const char *path)
{
    char line[64];
    read_line(path, line, sizeof line);
    return atoi(line);
}

/* Reads a list such as "0-3,8,10-11"; empty if the file is missing. Leaves out numbers from
 * CPU_SETSIZE on. */
static cpu_set_t read_list(const char *path)
{
    char line[8192];
    cpu_set_t list;
    CPU_ZERO(&list);
    read_line(path, line, sizeof line);
    for (char *at = line; isdigit((unsigned char)*at); at += *at == ',') {
        const long first = strtol(at, &at, 10);
        const long last = *at == '-' ? strtol(at + 1, &at, 10) : first;
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, &list);
    }
    return list;
}

static int first_of(const cpu_set_t *set)
{
    int i = 0;
    while (i < CPU_SETSIZE && !CPU_ISSET((size_t)i, set))
        i++;
    return i;
}

static cpu_set_t cores_of(const NumaMap *map, int node)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/devices/system/node/node%d/cpulist", map->sys, node);
    cpu_set_t cores = read_list(path);
    CPU_AND(&cores, &cores, &map->allowed);
    return cores;
}

/* Finds the GPUs in CUDA_VISIBLE_DEVICES, by their index in the order of addresses. Returns 0 if
 * there are fewer than the ranks: the ranks compute elsewhere. */
static int find_gpus(NumaMap *map, int num_ranks)
{
    char path[PATH_MAX];
    glob_t found;
    snprintf(path, sizeof path, "%s/bus/pci/drivers/nvidia/*:*:*.*/numa_node", map->sys);
    const int present = glob(path, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    for (const char *at = visible; present >= num_ranks && count < FLAGS_MAX_WORKERS; count++) {
        char *end = NULL;
        const long index = visible == NULL ? count : strtol(at, &end, 10);
        if ((visible != NULL && *at == '\0') || index < 0 || index >= present)
            break; // CUDA, too, reads up to the first invalid entry
        if (visible != NULL && (end == at || (*end != ',' && *end != '\0')))
            usage_error("--numa-binding: CUDA_VISIBLE_DEVICES=%s: give numbers, as in 0,1, since "
                        "names do not say where a GPU is",
                        visible);
        const int node = read_number(found.gl_pathv[index]);
        map->node_of[count] = node > 0 ? node : 0; // -1 means unknown
        at = end != NULL && *end == ',' ? end + 1 : end;
    }
    globfree(&found);
    return count >= num_ranks ? count : 0;
}

void numa_read(NumaMap *map, const char *sys, const cpu_set_t *allowed, int num_ranks)
{
    char path[PATH_MAX];
    *map = (NumaMap){ .sys = sys, .allowed = *allowed };
    snprintf(path, sizeof path, "%s/devices/system/node/online", sys);
    map->nodes = read_list(path);
    int with_cores[CPU_SETSIZE] = { 0 }, num_nodes = 0;
    for (int node = 0; node < CPU_SETSIZE; node++) {
        const cpu_set_t cores = cores_of(map, node);
        if (!CPU_ISSET((size_t)node, &map->nodes) || CPU_COUNT(&cores) == 0)
            CPU_CLR((size_t)node, &map->nodes); // it has memory alone, or is for other processes
        else
            with_cores[num_nodes++] = node;
    }
    if (num_nodes < 2)
        usage_error("--numa-binding: the cores that this process may use are on one NUMA node, so "
                    "there is no choice; leave it out");
    map->num_places = find_gpus(map, num_ranks);
    for (int i = 0; i < num_ranks && map->num_places > 0; i++)
        if (!CPU_ISSET((size_t)map->node_of[i], &map->nodes))
            usage_error("--numa-binding: the GPU of local rank %d is on node %d, where this "
                        "process may use no core",
                        i, map->node_of[i]);
    for (int i = 0; i < num_ranks && map->num_places == 0; i++)
        map->node_of[i] = with_cores[i * num_nodes / num_ranks];
    if (map->num_places == 0)
        map->num_places = num_ranks;
}

/* ---- groups of cores ---- */

/* Groups of cores that share something: a physical core, a cache. The number is the first core. */
typedef struct {
    int of[CPU_SETSIZE]; // each core's group; -1 if none
    int size[CPU_SETSIZE]; // each group's size; 0 if there is no such group
} Groups;

static int first_of_core(const NumaMap *map, int core)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s" CPU "topology/thread_siblings_list", map->sys, core);
    const cpu_set_t siblings = read_list(path);
    return first_of(&siblings);
}

static int first_of_cache(const NumaMap *map, int core)
{
    char path[PATH_MAX], type[32];
    int highest = -1, first = CPU_SETSIZE;
    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof path, "%s" CPU "cache/index%d/type", map->sys, core, i);
        read_line(path, type, sizeof type);
        if (type[0] != 'U' && type[0] != 'D') // neither unified nor a data cache
            continue;
        snprintf(path, sizeof path, "%s" CPU "cache/index%d/level", map->sys, core, i);
        const int level = read_number(path);
        if (level <= highest)
            continue;
        highest = level;
        snprintf(path, sizeof path, "%s" CPU "cache/index%d/shared_cpu_list", map->sys, core, i);
        const cpu_set_t sharing = read_list(path);
        first = first_of(&sharing);
    }
    return first;
}

static Groups group(const NumaMap *map, const cpu_set_t *cores, bool by_cache)
{
    Groups groups = { 0 };
    for (int i = 0; i < CPU_SETSIZE; i++) {
        groups.of[i] = -1;
        if (!CPU_ISSET((size_t)i, cores))
            continue;
        groups.of[i] = by_cache ? first_of_cache(map, i) : first_of_core(map, i);
        if (groups.of[i] == CPU_SETSIZE)
            usage_error("--numa-binding: %s" CPU " does not say which cores share a %s", map->sys,
                        i, by_cache ? "cache" : "core");
        groups.size[groups.of[i]]++;
    }
    return groups;
}

static void add_group(cpu_set_t *chosen, const Groups *groups, int number)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (groups->of[i] == number)
            CPU_SET((size_t)i, chosen);
}

/* ---- the modes ---- */

/* Counts the places before this one, or in all, that are on its node. */
static int count_places(const NumaMap *map, int place, int end)
{
    int count = 0;
    for (int i = 0; i < end; i++)
        count += map->node_of[i] == map->node_of[place];
    return count;
}

static int socket_of(const NumaMap *map, int node)
{
    char path[PATH_MAX];
    const cpu_set_t cores = cores_of(map, node);
    snprintf(path, sizeof path, "%s" CPU "topology/physical_package_id", map->sys,
             first_of(&cores));
    return read_number(path);
}

static void choose_node(const NumaMap *map, int place, cpu_set_t *chosen)
{
    *chosen = cores_of(map, map->node_of[place]);
}

static void choose_socket(const NumaMap *map, int place, cpu_set_t *chosen)
{
    const int socket = socket_of(map, map->node_of[place]);
    for (int node = 0; node < CPU_SETSIZE; node++) {
        if (!CPU_ISSET((size_t)node, &map->nodes) || socket_of(map, node) != socket)
            continue;
        const cpu_set_t cores = cores_of(map, node);
        CPU_OR(chosen, chosen, &cores);
    }
}

/* Gives each place the same number of physical cores, and the first places the remaining ones. */
static void choose_exclusive(const NumaMap *map, int place, cpu_set_t *chosen)
{
    const cpu_set_t cores = cores_of(map, map->node_of[place]);
    const int places = count_places(map, place, map->num_places);
    const int before = count_places(map, place, place);
    int count = 0, number = 0;
    const Groups groups = group(map, &cores, false);
    for (int i = 0; i < CPU_SETSIZE; i++)
        count += groups.size[i] > 0;
    if (count < places)
        usage_error("--numa-binding exclusive: node %d has fewer cores than ranks or GPUs, %d for "
                    "%d: take node",
                    map->node_of[place], count, places);
    const int each = count / places, more = count % places;
    const int first = before * each + (before < more ? before : more);
    const int end = first + each + (before < more);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        const bool exists = groups.size[i] > 0;
        if (exists && number >= first && number < end)
            add_group(chosen, &groups, i);
        number += exists;
    }
}

/* Takes the caches in turn, those with the most cores first. */
static void choose_core_complex(const NumaMap *map, int place, cpu_set_t *chosen)
{
    const cpu_set_t cores = cores_of(map, map->node_of[place]);
    const Groups groups = group(map, &cores, true);
    int order[CPU_SETSIZE], count = 0;
    for (int size = CPU_SETSIZE; size > 0; size--)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (groups.size[i] == size)
                order[count++] = i;
    add_group(chosen, &groups, order[count_places(map, place, place) % count]);
}

static const struct {
    const char *name;
    void (*choose)(const NumaMap *map, int place, cpu_set_t *chosen);
} modes[] = {
    { "node", choose_node },
    { "socket", choose_socket },
    { "exclusive", choose_exclusive },
    { "core-complex", choose_core_complex },
};
enum { NUM_MODES = sizeof modes / sizeof *modes };

int numa_mode(const char *name)
{
    for (int mode = 0; mode < NUM_MODES; mode++)
        if (strcmp(modes[mode].name, name) == 0)
            return mode;
    usage_error("--numa-binding %s: it must be node, socket, exclusive or core-complex", name);
}

void numa_choose(const NumaMap *map, int mode, int local_rank, cpu_set_t *chosen)
{
    CPU_ZERO(chosen);
    modes[mode].choose(map, local_rank, chosen);
}

void numa_plan(const Flags *flags)
{
    if (flags->numa_binding == NULL)
        return;
    const char *sys = getenv("DDP_SYS") != NULL ? getenv("DDP_SYS") : "/sys";
    const int mode = numa_mode(flags->numa_binding);
    cpu_set_t allowed;
    NumaMap *map = mem_calloc(1, sizeof *map);
    SYS_CHECK(sched_getaffinity(0, sizeof allowed, &allowed));
    numa_read(map, sys, &allowed, flags->nproc_per_node);
    plan = mem_calloc((size_t)flags->nproc_per_node, sizeof *plan);
    for (int i = 0; i < flags->nproc_per_node; i++)
        numa_choose(map, mode, i, &plan[i]);
    free(map);
}

bool numa_bind(int local_rank)
{
    return plan == NULL || sched_setaffinity(0, sizeof *plan, &plan[local_rank]) == 0;
}
