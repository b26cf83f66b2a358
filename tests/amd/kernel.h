/* Kernels of a code object, their arguments and launches. */
#ifndef CLATTN_TESTS_AMD_KERNEL_H
#define CLATTN_TESTS_AMD_KERNEL_H

#include "machine.h"
#include "object.h"

struct kernel {
    const struct code *code;
    const struct object *object;
    const struct kernel_code *about;
    unsigned char *arguments; /* the bytes that a launch reads, less the hidden ones */
    uint32_t *local_bytes;    /* by argument: of an offset in LDS, what begins there */
    unsigned char *is_set;    /* by argument */
};

/* 0: memory ran out. */
int kernel_init(struct kernel *kernel, const struct code *code, const struct object *object,
                const struct kernel_code *about);
void kernel_clear(struct kernel *kernel);
/* How many arguments a caller sets. */
int kernel_argument_count(const struct kernel *kernel);
int kernel_is_complete(const struct kernel *kernel);
/* LDS of a group in bytes. */
uint32_t kernel_group_bytes(const struct kernel *kernel);

/* Sizes in work-items; unused dimensions have one. */
struct range {
    uint32_t dimensions, first[3], groups[3], local[3];
};

/* Runs all groups. 0, or an error, which it also prints. Launches of several threads run one after the other. */
int kernel_run(const struct kernel *kernel, const struct range *range);

#endif
