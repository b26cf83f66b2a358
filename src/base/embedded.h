/* The files of cl/ as the build embeds them, and measured parameters. */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>

#include "embedded_files.h" /* enum embedded_file: FILE_tile is tile.clh */

/* A header that a word or an engine lacks since no kernel wants it. */
#define FILE_nothing FILE_COUNT

struct embedded {
    const char *name;          /* "tile.clh" */
    const unsigned char *text; /* size bytes, then a NUL */
    size_t size;
};

extern const struct embedded embedded_files[FILE_COUNT];

#endif
