/*
 * disk.h - what would be on the disk if the process were killed, or the power failed, at each
 * moment?
 *
 * All calls that write files (open, write, fsync, rename ...) pass through here.
 * Before and after each one, the folder is compared with what is certain to be on the disk: the
 * contents that a file had at its last fsync, the names that the folder had at its last fsync. Of
 * all states that a crash could leave, the typical ones are written into folders of their own.
 */
#ifndef TEACH_LAB_SNAPSHOT_DISK_H
#define TEACH_LAB_SNAPSHOT_DISK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define DISK_IMAGES 4096 // most images

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

/* Delays each call of other threads from now on by twice this time, so that this thread overtakes
 * them. */
void disk_delay_threads(unsigned microseconds);

/* Writes an image of the folder as it is, without any call. */
void disk_look(void);

/* Waits until no more threads run than at the first call. Returns false if they do not end. */
bool disk_wait_for_threads(void);

#endif
