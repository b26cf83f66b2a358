/* The files of cl/, which the build embeds in the library (cmake/embed_cl.cmake). */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>

#include "embedded_files.h" /* enum embedded_file: FILE_tile is tile.clh */

/* Stands for a header that a word or an engine does not have because no kernel needs it. */
#define FILE_nothing FILE_COUNT

/* An embedded file. Lines keep their numbers, so that compiler messages name the right line. Comments are removed,
 * because some compilers reject characters outside ASCII even there. */
struct embedded {
    const char *name; /* "tile.clh", the name in #include lines */
    const char *path; /* "cl/plain/tile.clh" */
    const char *text; /* `size` characters and a NUL */
    size_t size;
};

/* All files, by enum embedded_file. */
extern const struct embedded embedded_files[FILE_COUNT];

/* The parameters of a kernel, as its file lists them: tensors first, each a pointer and a view, then numbers. */
struct kernel_parameter {
    const char *name;
    enum {
        PARAMETER_TENSOR,   /* absent if the host defines HAS_name as 0 */
        PARAMETER_OPTIONAL, /* NULL in calls without it */
        PARAMETER_INTEGER,
        PARAMETER_FLOAT
    } kind;
    int width; /* elements of a vector; 1: a scalar */
};

struct kernel_signature {
    const char *name; /* the kernel's; NULL: the file has no kernel, or one that does not list its tensors */
    const struct kernel_parameter *parameters;
    int count;
};

/* By enum embedded_file. */
extern const struct kernel_signature kernel_signatures[FILE_COUNT];

#endif
