/* Structs of callers that were built with another version of clattn.h: smaller or larger than this library's. */
#ifndef CLATTN_SRC_SIZED_H
#define CLATTN_SRC_SIZED_H

#include <stddef.h>

/* Fills ours from a caller's: fields that theirs lacks are zero. 0 when theirs has bytes past ours that are not zero.
 */
int sized_read(void *ours, size_t our_size, const void *theirs, size_t their_size);

/* The other way: never past their_size; what ours lacks is zero. */
void sized_write(void *theirs, size_t their_size, const void *ours, size_t our_size);

#endif
