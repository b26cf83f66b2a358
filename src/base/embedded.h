/* The files of cl/ as the build embeds them: one entry a file, its name without a directory. */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *name;          /* "tile.clh" */
    const unsigned char *text; /* size bytes, then a NUL */
    size_t size;
};

extern const struct embedded embedded_files[]; /* in order of their names */
extern const size_t embedded_count;

#endif
