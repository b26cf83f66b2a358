/* A kernel as data: its file, and all that its source depends on. */
#ifndef CLATTN_SRC_SOLVE_KERNEL_STEP_H
#define CLATTN_SRC_SOLVE_KERNEL_STEP_H

#include "base/embedded.h"
#include "device/context.h"
#include "op/problem.h"

struct engine;

enum { STEP_CONSTANTS = 112, STEP_HEADERS = 24 };

struct kernel_step {
    enum embedded_file file;
    const char *name;    /* of the kernel in it */
    int group;           /* work-items */
    int shared;          /* written for work-items that share a tile: a CPU's compiler must not optimise it */
    int any_group;       /* it runs in groups of its size whatever the driver says of it */
    int registers;       /* of a work-item, at most; 0: as many as the compiler wants */
    const char *options; /* of the compiler */
    clattn_dtype data, gate, out, state; /* storage types */
    double gate_scale, eps;              /* eps below 0: the kernel has none */
    uint64_t absent;                     /* a bit for each parameter: a tensor that nothing stands for */
    size_t local_bytes;
    struct {
        const char *name;
        int64_t value;
    } constants[STEP_CONSTANTS];
    int constant_count;
    enum embedded_file headers[STEP_HEADERS]; /* that supply the words, in order, ahead of the kernel's own file */
    int header_count;
    const char *left_out; /* a constant or header for which there was no room; NULL. kernel_create refuses it */
};

struct number {
    const char *name;
    int64_t value;
};

/* A step of the kernel in the file (FILE_nothing: one that is put in later), with the problem's types and the constants that every kernel has but for GROUP, VEC
 * and CHUNK. */
struct kernel_step kernel_step(enum embedded_file file, const struct problem *problem);

void step_constant(struct kernel_step *step, const char *name, int64_t value);
void step_constants(struct kernel_step *step, const struct number *numbers, size_t count);
/* Another value in the place of one that the step has. */
void step_replace(struct kernel_step *step, const char *name, int64_t value);
/* GROUP, VEC and CHUNK; and SUB_GROUP where it is not 0. */
void step_tile(struct kernel_step *step, int group, int vec, int chunk, int sub_group);
/* An array in local memory, or several as long as each other: its count is the constant of that name, which the kernel
 * declares it with. Local memory is said nowhere else. */
void step_local(struct kernel_step *step, const char *name, int64_t count, int64_t element);
void step_locals(struct kernel_step *step, const char *name, int arrays, int64_t count, int64_t element);
/* What an engine's instructions take of local memory, bytes a work-item. */
void step_scratch(struct kernel_step *step, int bytes);
/* The words of teams of an engine's sub-groups, so many teams a group; what those that compute and those that move take of
 * a compute unit's registers, where sub-groups of their own move and the driver can be told. After step_tile. */
void step_team(struct kernel_step *step, const struct engine *engine, int teams, int moved_apart);
/* The words of copies in groups, STAGES - 2 of which stay on their way (cl/engines/copies_grouped.clh). */
void step_copies(struct kernel_step *step, const struct engine *engine);
void step_header(struct kernel_step *step, enum embedded_file header);
/* UNSUPPORTED where the device's local memory does not hold the step's arrays. */
clattn_status step_fits(const struct kernel_step *step, const struct device *device);

/* ---- Source and build ---------------------------------------------------------------------------------------------
 */

/* The text with its lines #include "name" replaced by that file of cl/, each file once; to be freed; NULL without
 * memory. */
char *kernel_flatten(const char *source);

/* The whole source, to be freed; NULL without memory. It says by HAS_name which tensors are absent: every buffer among a
 * kernel's arguments, NULL or not, costs each launch. */
char *kernel_source(const struct kernel_step *step);

/* A kernel, and the program that it holds. */
struct kernel {
    cl_kernel cl; /* NULL: none */
    struct program *program;
    cl_program from; /* what it was made of */
};

/* Builds the step, or takes it from the context's programs, and adds its source to the hash, which may be NULL.
 * UNSUPPORTED when the device runs it only in smaller groups. */
clattn_status kernel_create(clattn_context *context, const struct log *log, const struct kernel_step *step,
                            struct kernel *kernel, struct hash *hash);
/* What to put in the place of a kernel that cannot be run, where its program came from the cache: one of the same
 * program, built from source, by kernel_swap. Not while a lock is held: compilers take long, and callbacks may call the
 * library. UNSUPPORTED where the cache is not to blame. */
clattn_status kernel_again(clattn_context *context, const struct kernel *kernel, struct kernel *again);
/* What is to be released (ReleaseKernel) of the two: another thread may have put one there before. */
cl_kernel kernel_swap(struct kernel *kernel, const struct kernel *again);
/* Then it is none. */
void kernel_release(clattn_context *context, struct kernel *kernel);

/* The multiple of n that follows x, or x. */
static inline int round_up(int64_t x, int n)
{
    return (int)((x + n - 1) / n * n);
}

static inline int64_t divide_up(int64_t x, int64_t n)
{
    return (x + n - 1) / n;
}

/* The lower and the higher of two, which an int holds. */
static inline int lower(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

static inline int higher(int64_t a, int64_t b)
{
    return (int)(a > b ? a : b);
}

/* The largest power of two not above x, at least 1. */
static inline int power_of_two_below(int64_t x)
{
    int power = 1;

    while (power * 2 <= x)
        power *= 2;
    return power;
}

#endif
