/* The few things that C11 does not say: terminals, file kinds, a steady clock. */
#ifndef CLATTN_SRC_CLI_SYSTEM_H
#define CLATTN_SRC_CLI_SYSTEM_H

#include <stdint.h>

enum file_kind { FILE_MISSING, FILE_REGULAR, FILE_OTHER };

/* What path is; *bytes is its size when it is regular. */
enum file_kind file_kind(const char *path, uint64_t *bytes);
/* Puts from in the place of to, at once; 0 on success. */
int file_replace(const char *from, const char *to);
/* Callable from a signal handler. */
void file_remove(const char *path);

int stderr_is_terminal(void);
unsigned long process_id(void);
double now_seconds(void);

#endif
