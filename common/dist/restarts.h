/* restarts.h - how often has this job been restarted? */
#ifndef COMMON_DIST_RESTARTS_H
#define COMMON_DIST_RESTARTS_H

/* Restarts by a launcher (TORCHELASTIC_RESTART_COUNT) plus those by Slurm's requeue
 * (SLURM_RESTART_COUNT); 0: none, or unknown. Local. */
int restart_count(void);

#endif
