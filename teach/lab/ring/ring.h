/* ring.h - lab-ring: four collectives, to be written with nothing but pg_send and pg_recv.
 *
 * They mean what process_group.h says of broadcast, reduce_scatter, all_gather and all_reduce. You
 * may also use reduce_elements and reduce_finish (backend.h), dtype_size, mem_alloc, mem_calloc and
 * free (memory.h), and memcpy.
 */
#ifndef TEACH_LAB_RING_H
#define TEACH_LAB_RING_H

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/comm/backend.h"

void lab_broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root);
void lab_reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                        ReduceOp op);
void lab_all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
void lab_all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);

#endif
