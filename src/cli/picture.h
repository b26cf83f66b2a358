/* Attention matrices as an SVG that needs no other file, on light and dark ground. */
#ifndef CLATTN_SRC_CLI_PICTURE_H
#define CLATTN_SRC_CLI_PICTURE_H

#include <stdint.h>
#include <stdio.h>

struct picture {
    const float *data; /* [count, rows, columns] */
    int64_t count, rows, columns;
    int64_t heads;     /* of a batch element: count is a multiple */
    const char *title; /* without characters that XML has a use for */
};

/* Rows are queries, columns keys; of more than MOST_PANELS matrices the first. What is 0 shows the ground, the larger
 * the magnitude the fuller the colour, by its square root, one for each sign, and one scale for all. 0, or -1 with
 * errno. */
int picture_write(FILE *file, const void *picture);

#endif
