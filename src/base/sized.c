#include "base/sized.h"

#include <string.h>

int sized_read(void *ours, size_t our_size, const void *theirs, size_t their_size)
{
    const unsigned char *bytes = theirs;
    size_t common = their_size < our_size ? their_size : our_size;

    memcpy(ours, theirs, common);
    if (common < our_size)
        memset((char *)ours + common, 0, our_size - common);
    for (size_t i = common; i < their_size; i++)
        if (bytes[i] != 0)
            return 0;
    return 1;
}

void sized_write(void *theirs, size_t their_size, const void *ours, size_t our_size)
{
    size_t common = their_size < our_size ? their_size : our_size;

    memcpy(theirs, ours, common);
    memset((char *)theirs + common, 0, their_size - common);
}
