/* mpi_launch.h - checks the variables that MPI's launchers set. */
#ifndef COMMON_COMM_MPI_MPI_LAUNCH_H
#define COMMON_COMM_MPI_MPI_LAUNCH_H

/* Usage error unless an MPI launcher has started this process; dies if it numbers the ranks
 * differently. Call it before MPI_Init: without a launcher each rank would become an MPI world of
 * one, and a process forked from a rank would take its parent's place. Local. */
void mpi_launch_check(int rank, int world_size);

/* Dies unless MPI numbers the ranks as the launcher does. Local. */
void mpi_launch_compare(int rank, int world_size, int mpi_rank, int mpi_size);

#endif
