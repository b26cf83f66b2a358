/* clattn's side of a comparison, as a shared library that a script loads: a problem held ready on a device, whose inputs
 * come from the script and whose runs are timed one by one. Nothing here is part of clattn's interface. */
#ifndef CLATTN_BENCH_SIDE_H
#define CLATTN_BENCH_SIDE_H

#include "clattn.h"

struct side;         /* a device */
struct side_problem; /* one problem on it */

/* All fields of one width, so that a script can fill them without knowing a struct's layout. */
struct side_shape {
    int64_t batch, seq_len, heads, key_dim, value_dim;
    int64_t dtype, gate_dtype; /* clattn_dtype */
    int64_t flags;             /* CLATTN_QK_L2NORM … */
    int64_t layer, layers;
    int64_t sets;     /* of operands, that the runs go round */
    int64_t in_place; /* final states overwrite the initial ones */
    int64_t qk_heads; /* 0: as many as heads */
    int64_t readout;  /* clattn_readout */
};

/* device as the command's --device takes it; NULL: the best. Functions are 0 when all is well, else the clattn_status;
 * side_message then says more. */
int side_open(struct side **side, const char *device);
void side_close(struct side *side);
const char *side_device(const struct side *side);
const char *side_driver(const struct side *side);
const char *side_message(const struct side *side);
/* Copy bandwidth in bytes and f32 multiply-adds in operations a second; 0: not known. */
void side_peaks(struct side *side, double *bytes, double *flops);

int side_problem_open(struct side_problem **problem, struct side *side, const char *rule,
                      const struct side_shape *shape);
void side_problem_close(struct side_problem *problem);
const char *side_problem_plan(const struct side_problem *problem);
/* The host's memory of an operand, NULL for one that the problem does not use. side_write sends all inputs from there
 * to a set, side_read fetches outputs of a set: that of a name, or with NULL all. */
void *side_operand(struct side_problem *problem, const char *name, int64_t *bytes);
int side_write(struct side_problem *problem, int64_t set);
int side_read(struct side_problem *problem, int64_t set, const char *name);
/* Fills the host's inputs as `clattn bench` does. */
int side_fill(struct side_problem *problem, int64_t seed);
/* Relative error of the host's outputs against the reference over the host's inputs. */
int side_reference_error(struct side_problem *problem, double *error);
/* One run over a set, waited for. */
int side_run(struct side_problem *problem, int64_t set);
/* One run that is not timed, then count runs over the sets in turn: seconds[i] is from the end of the run before to the
 * end of run i, by the device's clock. */
int side_time(struct side_problem *problem, int64_t count, double *seconds);
/* The kernels of the problem in order, at most 56, and the median seconds of each in runs runs. */
int side_kernel_times(struct side_problem *problem, int64_t runs, const char **names, double *seconds, int64_t *count);

#endif
