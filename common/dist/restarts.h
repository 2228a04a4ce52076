/* restarts.h - which attempt at this job is it? */
#ifndef COMMON_DIST_RESTARTS_H
#define COMMON_DIST_RESTARTS_H

/* How often the job was started again: by a launcher (TORCHELASTIC_RESTART_COUNT) and by Slurm's
 * requeue (SLURM_RESTART_COUNT), together; 0: never, or nobody says. Local. */
int restart_count(void);

#endif
