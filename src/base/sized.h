/* Structs of callers that were compiled with another version of clattn.h, and so may be smaller or larger than ours. */
#ifndef CLATTN_SRC_SIZED_H
#define CLATTN_SRC_SIZED_H

#include <stddef.h>

/* Copies the caller's struct to ours. Fields that theirs does not have are zero. Returns 0 if theirs has nonzero bytes
 * beyond ours. */
int sized_read(void *ours, size_t our_size, const void *theirs, size_t their_size);

/* The inverse. It does not write beyond their_size; fields that ours does not have become zero. */
void sized_write(void *theirs, size_t their_size, const void *ours, size_t our_size);

#endif
