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

#endif
