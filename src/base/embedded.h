/* The files of cl/, which the build compiles in (cmake/embed_cl.cmake). */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>

#include "embedded_files.h" /* enum embedded_file: FILE_tile is tile.clh */

/* A header that a word or an engine lacks since no kernel wants it. */
#define FILE_nothing FILE_COUNT

/* Every line of text has the number that it has in the file, so that a compiler's message names a line that exists.
 * Comments are left out: some compilers refuse letters outside ASCII even there. */
struct embedded {
    const char *name; /* "tile.clh", as other files include it */
    const char *path; /* "cl/plain/tile.clh" */
    const char *text; /* `size` letters and a NUL */
    size_t size;
};

/* All of them, by enum embedded_file. */
extern const struct embedded embedded_files[FILE_COUNT];

/* What a kernel is called with, as its file says: its tensors, a pointer and a view each, then numbers. */
struct kernel_parameter {
    const char *name;
    enum {
        PARAMETER_TENSOR,   /* no parameter where the host defines HAS_name as 0 */
        PARAMETER_OPTIONAL, /* NULL where a call has none */
        PARAMETER_INTEGER,
        PARAMETER_FLOAT
    } kind;
    int width; /* of a vector of numbers; 1 */
};

struct kernel_signature {
    const char *name; /* of the kernel; NULL: the file has none, or one that does not list its tensors */
    const struct kernel_parameter *parameters;
    int count;
};

/* By enum embedded_file. */
extern const struct kernel_signature kernel_signatures[FILE_COUNT];

#endif
