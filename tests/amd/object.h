/* AMD's code objects: ELF files with the kernels of a program, as ld.lld links them. */
#ifndef CLATTN_TESTS_AMD_OBJECT_H
#define CLATTN_TESTS_AMD_OBJECT_H

#include <stddef.h>
#include <stdint.h>

/* An argument of a kernel, as the object's note lists it. */
struct argument {
    enum { ARGUMENT_VALUE, ARGUMENT_BUFFER, ARGUMENT_LOCAL /* an offset in LDS */, ARGUMENT_HIDDEN } kind;
    char value_kind[32]; /* "hidden_grid_dims" … */
    uint32_t offset, size;
};

enum { MOST_ARGUMENTS = 256 };

struct kernel_code {
    char name[128];
    uint64_t entry; /* address of the first instruction */
    uint32_t rsrc1, rsrc2, properties, group_bytes, private_bytes;
    uint32_t kernarg_bytes, wave, most_group;
    uint32_t required[3]; /* reqd_work_group_size; else 0 */
    int argument_count;   /* the hidden ones stand last */
    struct argument arguments[MOST_ARGUMENTS];
};

struct object {
    unsigned char *image; /* the segments: what has the address a is image + a */
    size_t image_bytes;
    int kernel_count;
    struct kernel_code *kernels;
};

/* NULL, and the reason in error: the file is no code object of AMD's, or is damaged. */
struct object *object_load(const void *file, size_t bytes, char *error, size_t size);
void object_free(struct object *object);

#endif
