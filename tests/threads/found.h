/* What the parts of tests/threads share: the report. */
#ifndef CLATTN_TESTS_THREADS_FOUND_H
#define CLATTN_TESTS_THREADS_FOUND_H

#include <stddef.h>
#include <stdint.h>

/* A line of the report: at most so many of a launch, the rest is counted. */
void found(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How many lines there were, with those left out */
int found_count(void);

/* Where in the kernel's source the code at pc is, with the line's text: in `text`. */
void found_line(const void *pc, char *text, size_t size);
/* The object and the source that found_line looks in. */
void found_in(const char *object, const char *source, const void *base);

#endif
