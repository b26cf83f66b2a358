#define _GNU_SOURCE
#include "buffer.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, POISON = 0xff, BAND = 0xa5 };

int buffer_map(struct buffer *buffer, size_t bytes, void *host)
{
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE,
                 aligned = (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;

    *buffer = (struct buffer){.base = host, .bytes = bytes};
    if (host != NULL)
        return 1;
    buffer->page_bytes = whole + (size_t)2 * PAGE;
    buffer->pages = mmap(NULL, buffer->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffer->pages == MAP_FAILED)
        return 0;
    if (mprotect(buffer->pages + PAGE, whole, PROT_READ | PROT_WRITE) != 0) {
        munmap(buffer->pages, buffer->page_bytes);
        return 0;
    }
    buffer->base = buffer->pages + PAGE + whole - aligned;
    memset(buffer->pages + PAGE, BAND, (size_t)(buffer->base - buffer->pages) - PAGE);
    memset(buffer->base, POISON, bytes);
    memset(buffer->base + bytes, BAND, aligned - bytes);
    return 1;
}

static int is_band(const unsigned char *begin, const unsigned char *end)
{
    while (begin < end && *begin == BAND)
        begin++;
    return begin == end;
}

void buffer_unmap(struct buffer *buffer)
{
    if (buffer->pages == NULL)
        return;
    if (!is_band(buffer->pages + PAGE, buffer->base))
        fprintf(stderr, "amd: something was written before a buffer of %zu bytes\n", buffer->bytes);
    if (!is_band(buffer->base + buffer->bytes, buffer->pages + buffer->page_bytes - PAGE))
        fprintf(stderr, "amd: something was written behind a buffer of %zu bytes\n", buffer->bytes);
    munmap(buffer->pages, buffer->page_bytes);
}
