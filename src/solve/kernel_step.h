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
    const char *name;    /* the kernel's name in that file */
    int group;           /* work-items */
    int shared;          /* its work-items share a tile: the compiler of a CPU must not optimise it */
    int any_group;       /* it runs in groups of its size, whatever the driver says about that */
    int registers;       /* registers of a work-item, at most; 0: the compiler decides */
    const char *options; /* compiler options */
    clattn_dtype data, gate, strength, out, state; /* storage types */
    double gate_scale, softcap, eps;               /* eps < 0: the kernel has none */
    double step_min, step_max;                     /* both 0: steps are not limited */
    uint64_t absent;                               /* a bit for each parameter that is a tensor and absent */
    size_t local_bytes;
    struct {
        const char *name;
        int64_t value;
    } constants[STEP_CONSTANTS];
    int constant_count;
    enum embedded_file headers[STEP_HEADERS]; /* headers that define the words, in order, before the kernel's own
                                               * file */
    int header_count;
    const char *left_out; /* a constant or header for which there was no room, which kernel_create refuses; or NULL */
};

struct number {
    const char *name;
    int64_t value;
};

/* A step that runs the kernel in the file (FILE_nothing: the file is set later). It has the problem's types and the
 * constants that every kernel has, except for GROUP, VEC and CHUNK. */
struct kernel_step kernel_step(enum embedded_file file, const struct problem *problem);

void step_constant(struct kernel_step *step, const char *name, int64_t value);
void step_constants(struct kernel_step *step, const struct number *numbers, size_t count);
/* Changes the value of a constant that the step has. */
void step_replace(struct kernel_step *step, const char *name, int64_t value);
/* Sets GROUP, VEC and CHUNK, and SUB_GROUP unless it is 0. */
void step_tile(struct kernel_step *step, int group, int vec, int chunk, int sub_group);
/* Adds an array in local memory, or several of the same length. The array's length is a constant of that name, with
 * which the kernel declares it. All use of local memory is accounted for here. */
void step_local(struct kernel_step *step, const char *name, int64_t count, int64_t element);
void step_locals(struct kernel_step *step, const char *name, int arrays, int64_t count, int64_t element);
/* Adds the local memory that an engine's instructions need, in bytes for each work-item. */
void step_scratch(struct kernel_step *step, int bytes);
/* The words of teams of an engine's sub-groups, so many teams a group; what those that compute and those that move take of
 * a compute unit's registers, where sub-groups of their own move and the driver can be told. After step_tile. */
void step_team(struct kernel_step *step, const struct engine *engine, int teams, int moved_apart);
/* The words of copies in groups, STAGES - 2 of which stay on their way (cl/engines/copies_grouped.clh). */
void step_copies(struct kernel_step *step, const struct engine *engine);
void step_header(struct kernel_step *step, enum embedded_file header);
/* UNSUPPORTED: the device's local memory does not hold the step's arrays. */
clattn_status step_fits(const struct kernel_step *step, const struct device *device);

/* ---- Source and build ---------------------------------------------------------------------------------------------
 */

/* Replaces each line #include "name" of the text by that file of cl/, each file once. To be freed; NULL: out of
 * memory. */
char *kernel_flatten(const char *source);

/* The whole source, to be freed; NULL: out of memory. HAS_name says which tensors exist, because every buffer among a
 * kernel's arguments costs time at each launch, even if it is NULL. */
char *kernel_source(const struct kernel_step *step);

/* A kernel and the program that it belongs to. */
struct kernel {
    cl_kernel cl; /* NULL: none */
    struct program *program;
    cl_program from; /* the program that it was created from */
};

/* Builds the step, or takes it from the context's programs, and adds its source to the hash, which may be NULL.
 * UNSUPPORTED: the device runs it only in smaller groups. */
clattn_status kernel_create(clattn_context *context, const struct log *log, const struct kernel_step *step,
                            struct kernel *kernel, struct hash *hash);
/* If a kernel cannot be run and its program came from the cache, builds the program from source and creates the kernel
 * again; kernel_swap then replaces the old one. Do not call this while holding a lock: compilers take long, and
 * callbacks may call the library. UNSUPPORTED: the program did not come from the cache. */
clattn_status kernel_rebuild(clattn_context *context, const struct kernel *kernel, struct kernel *rebuilt);
/* Replaces the kernel. Returns the one of the two that the caller must release: another thread may have replaced it
 * already. */
cl_kernel kernel_swap(struct kernel *kernel, const struct kernel *rebuilt);
/* The kernel is empty afterwards. */
void kernel_release(clattn_context *context, struct kernel *kernel);

/* x rounded up to a multiple of n. */
static inline int round_up(int64_t x, int n)
{
    return (int)((x + n - 1) / n * n);
}

static inline int64_t divide_up(int64_t x, int64_t n)
{
    return (x + n - 1) / n;
}

/* The smaller and the larger of two numbers, which an int holds. */
static inline int lower(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

static inline int higher(int64_t a, int64_t b)
{
    return (int)(a > b ? a : b);
}

/* The largest power of two that is at most x, at least 1. */
static inline int power_of_two_below(int64_t x)
{
    int power = 1;

    while (power * 2 <= x)
        power *= 2;
    return power;
}

#endif
