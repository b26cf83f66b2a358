/* Parts of a softmax become the whole: o = Σ e^(lse_p - lse) o_p, in f32. All tensors lie in one buffer, contiguous. */
#ifndef CLATTN_SRC_MPI_JOIN_H
#define CLATTN_SRC_MPI_JOIN_H

#include "clattn.h"
#include "device/opencl.h"

#include <stdint.h>

struct join {
    cl_program program;
    struct opencl_kernel first, next, last;
};

clattn_status join_create(struct join *join, clattn_context *context, clattn_dtype dtype, const struct log *log);
void join_destroy(struct join *join); /* of zeros, too */

/* Where rows of that many columns lie in the buffer, in bytes. */
struct join_rows {
    int64_t rows, columns;
    size_t sum;             /* f32 */
    size_t logs[2];         /* f32, a row each: those before and after a part is added, in turn */
    size_t part, part_logs; /* dtype and f32 */
    size_t output;          /* dtype */
    size_t shifts;          /* f32, a row each, which are added to the next part's lse; NO_SHIFTS: none */
    int parts;              /* that were added */
};
#define NO_SHIFTS SIZE_MAX

/* Where lse is after the parts that were added. */
size_t join_logs(const struct join_rows *rows);
/* Enqueue a kernel, which waits for *done, and exchange *done for its event. */
clattn_status join_add(const struct join *join, struct join_rows *rows, cl_command_queue queue, cl_mem memory,
                       const struct log *log, cl_event *done);
clattn_status join_end(const struct join *join, const struct join_rows *rows, cl_command_queue queue, cl_mem memory,
                       const struct log *log, cl_event *done);

#endif
