/* Kernels as data: what each is called with, and how its source is put together from words. */
#ifndef CLATTN_SRC_KERNEL_H
#define CLATTN_SRC_KERNEL_H

#include "plan/context.h"
#include "device/engine.h"
#include "op/problem.h"

/* X(role): the buffers that kernels name. Each is bound to an operand, a workspace section or a plan's own buffer; in a
 * kernel it is a pointer and the long4 NAME_at: offset, batch, token and head strides. */
/* clang-format off */
#define ROLES(X) \
    X(q) X(k) X(v) X(o) X(g) X(gv) X(beta) X(p) X(e) X(w) X(u) X(f) X(i) X(m) X(den) \
    X(initial) X(final) X(cu) X(decay) X(strength) X(records) X(rows) X(segments) X(kept)
/* clang-format on */

enum role {
#define ROLE_ENUM(name) ROLE_##name,
    ROLES(ROLE_ENUM)
#undef ROLE_ENUM
        ROLE_COUNT,
    /* numbers, by value */
    ARG_seq_len = ROLE_COUNT,
    ARG_sequences,
    ARG_scale,
    ARG_states,
    ARG_END
};

enum kernel_id {
    KERNEL_PREPARE,
    KERNEL_SCAN,
    KERNEL_RECURRENT,
    KERNEL_STABILIZE,
    KERNEL_PREPARE_MATRIX,
    KERNEL_PREPARE_FACTORS,
    KERNEL_SCAN_MATRIX,
    KERNEL_PROBE_MATRIX,
    KERNEL_COUNT
};

/* The arguments in order, closed by ARG_END. */
const enum role *kernel_arguments(enum kernel_id id);
const char *kernel_name(enum kernel_id id);

/* The multiple of n that follows x, or x. */
static inline int round_up(int64_t x, int n)
{
    return (int)((x + n - 1) / n * n);
}

/* How a tile is cut and shared. */
struct tiles {
    int group;                  /* work-items that share a tile; may be 1 */
    int vec;                    /* floats a work-item works at once: 4 or 16 */
    int chunk;                  /* tokens; 1 in the recurrence */
    int block_k;                /* channels in local memory at once */
    int block_v;                /* value columns of a group */
    int pad;                    /* floats after each row of a slice */
    int lanes_k;                /* recurrence: work-items that share a column */
    int sub_group;              /* work-items of a sub-group; 0: the compiler's choice */
    int value_tiles, key_split; /* matrix engines: sub-groups side by side, and those that share a value column */
    int loaders;                /* matrix engines: sub-groups that only move */
    int readers;                /* matrix engines: 1 when sub-groups of their own make the output */
    int span;                   /* matrix engines: tiles of value columns of a sub-group */
    int depth;                  /* matrix engines: chunks on their way to a group at once; 0: the usual */
    int segments;               /* matrix engines: parts of a sequence that are scanned at once */
    int stages;                 /* matrix engines: chunks in local memory at once */
};

/* Everything that a kernel's source depends on. */
struct variant {
    enum kernel_id kernel;
    struct tiles tiles;
    const struct problem *problem;
    const char *gate, *out;     /* storage type names */
    const char *value, *output; /* headers that supply these words */
    int value_dim, state_vk, value_ones;
    const struct engine *engine; /* of the matrix kernels */
    int gather;                  /* the scan is the first of two over segments: after the state alone */
};

/* The text with its lines #include "name" replaced by that file of cl/, each file once; to be freed; NULL without memory. */
char *kernel_flatten(const char *source);

/* The whole source, to be freed; NULL without memory. */
char *kernel_source(const struct variant *variant);

/* The same without the constants ahead: what is the same for all tiles, types and sizes. */
char *kernel_words(const struct variant *variant);

/* Local memory that the variant takes, in bytes: the declarations of the .cl file. */
size_t kernel_local_bytes(const struct variant *variant);

/* Builds the variant, or takes it from the context's programs, and adds its source to the hash, which may be NULL.
 * UNSUPPORTED when the device runs it only in smaller groups. */
clattn_status kernel_create(clattn_context *context, const struct variant *variant, cl_kernel *kernel,
                            struct hash *hash);

#endif
