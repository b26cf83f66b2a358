/* Memory of a device's buffers: it ends at a page that cannot be accessed, and begins behind another one. */
#ifndef CLATTN_TESTS_AMD_BUFFER_H
#define CLATTN_TESTS_AMD_BUFFER_H

#include <stddef.h>

/* Less than OpenCL's 128 bytes, so that less lies between the end and the page. No kernel of clattn's uses a type
 * that is larger. */
enum { BUFFER_ALIGNMENT = 16 };

struct buffer {
    unsigned char *base;
    size_t bytes;
    unsigned char *pages; /* NULL: it is the caller's */
    size_t page_bytes;
};

/* Bytes of 0xff, which are NaN in f32, f16 and bf16; with a host pointer, the caller's memory. 0: memory
 * ran out. */
int buffer_map(struct buffer *buffer, size_t bytes, void *host);
/* Prints where something was written between the end and the page. */
void buffer_unmap(struct buffer *buffer);

#endif
