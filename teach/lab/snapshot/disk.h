/*
 * disk.h - what would be on the disk if the process were killed, or the power failed, at each
 * moment?
 *
 * The calls that write files (open, write, fsync, rename ...) come by here, whoever makes them.
 * Before and after each one, the folder is compared with what is certain to be on the disk: the
 * contents that a file had at its last fsync, the names that the folder had at its last fsync. Of
 * all states that a crash could leave, the typical ones are written into folders of their own.
 */
#ifndef TEACH_LAB_SNAPSHOT_DISK_H
#define TEACH_LAB_SNAPSHOT_DISK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define DISK_IMAGES 4096 // at most

/* A folder as a crash could leave it: DIR/NUMBER. */
typedef struct {
    const char *kind; // what a wrong one shows: the name of a hint
    uint64_t complete; // the last step whose snapshot had been completed
    bool removed; // a file that was there is gone
    char moment[160]; // for messages
} DiskImage;

typedef struct {
    DiskImage image[DISK_IMAGES];
    int num_images;
    uint64_t complete; // set by the harness
    char elsewhere[256]; // a file outside of the folder that was renamed into it
} DiskLog;

/* Watches the folder from now on, in this process; what is there now is on the disk. `log` is
 * shared. Images go to `images`: those of a kill, with `power` those of a power failure, too. */
void disk_watch(const char *folder, const char *images, DiskLog *log, bool power);

/* Calls of other threads than this one take longer from now on, twice so many microseconds each:
 * this one overtakes them. */
void disk_delay_threads(unsigned microseconds);

/* An image of the folder as it is, without any call. */
void disk_look(void);

/* Waits until the process has no more threads than at the first call. False: they do not end. */
bool disk_wait_for_threads(void);

#endif
