/* Attention matrices drawn as an SVG that needs no other file, for light and dark backgrounds. */
#ifndef CLATTN_SRC_CLI_OUT_HEAT_MAP_H
#define CLATTN_SRC_CLI_OUT_HEAT_MAP_H

#include <stdint.h>
#include <stdio.h>

struct heat_map {
    const float *data; /* [count, rows, columns] */
    int64_t count, rows, columns;
    int64_t heads;     /* per batch element; divides count */
    const char *title; /* without characters that XML reserves */
};

/* Draws the first matrices side by side: rows are queries, columns are keys. 0 is transparent; blue is positive, orange
 * is negative, and the opacity grows with the square root of the magnitude. heat_map is a struct heat_map, as
 * output_write_by passes it. Returns 0, or -1 with errno. */
int heat_map_write(FILE *file, const void *heat_map);

#endif
