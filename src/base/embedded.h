/* The files of cl/ as the build embeds them (cmake/embed_cl.cmake), folded: see fold.h. */
#ifndef CLATTN_SRC_EMBEDDED_H
#define CLATTN_SRC_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

#include "embedded_files.h" /* enum embedded_file: FILE_tile is tile.clh */

/* A header that a word or an engine lacks since no kernel wants it. */
#define FILE_nothing FILE_COUNT

struct embedded {
    char name[32];       /* "tile.clh" */
    uint32_t from, size; /* of its text, in that of all files */
};

extern const struct embedded embedded_files[FILE_COUNT];
extern const int embedded_folded; /* 0: embedded_bytes are the texts themselves */
extern const unsigned char embedded_bytes[];

/* The text of a file, `size` letters and a NUL, to be freed; NULL without memory. */
char *embedded_text(enum embedded_file file);

#endif
