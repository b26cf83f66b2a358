/* The files of cl/ as the build embeds them (cmake/embed_cl.cmake), folded: see fold.h. */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>

#include "embedded_files.h" /* enum embedded_file: FILE_tile is tile.clh */

/* A header that a word or an engine lacks since no kernel wants it. */
#define FILE_nothing FILE_COUNT

struct embedded {
    const char *name, *text; /* "tile.clh"; `size` letters and a NUL */
    size_t size;
};

/* What the build writes: of each file its name, a NUL, its text, a NUL */
extern const size_t embedded_size;
extern const size_t embedded_signs; /* that are folded; 0: embedded_bytes are the texts themselves */
extern const unsigned char embedded_bytes[];

/* All FILE_COUNT of them, by enum embedded_file; NULL without memory. Unfolded once a process, and never freed. */
const struct embedded *embedded_files(void);

#endif
