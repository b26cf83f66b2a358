/* How functions of OpenCL answer questions, for libraries and devices of tests' own. */
#ifndef CLATTN_TESTS_ANSWERS_H
#define CLATTN_TESTS_ANSWERS_H

#include "device/opencl.h"

#include <string.h>

/* The answer is so many bytes; size, value and needed are the caller's. */
static inline cl_int answer(const void *what, size_t bytes, size_t size, void *value, size_t *needed)
{
    if (needed != NULL)
        *needed = bytes;
    if (value == NULL)
        return CL_SUCCESS;
    if (size < bytes)
        return CL_INVALID_VALUE;
    memcpy(value, what, bytes);
    return CL_SUCCESS;
}

static inline cl_int answer_text(const char *text, size_t size, void *value, size_t *needed)
{
    return answer(text, strlen(text) + 1, size, value, needed);
}

#endif
