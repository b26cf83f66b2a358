/* Worker processes: this very command once more, with other words. They do not take SIGINT and its like: who started
 * them does, and ends them. */
#ifndef CLATTN_SRC_CLI_PROCESS_PROCESS_H
#define CLATTN_SRC_CLI_PROCESS_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct process {
    intptr_t id;  /* 0: none */
    FILE *output; /* what it prints, stdout and stderr in one */
};

/* words end with NULL, the first is how this command was called. One thread at a time. 0, or -1 with errno. */
int process_start(struct process *process, const char *const *words);
/* Returns when the process has ended. Its id is nobody else's until process_end. */
void process_await(const struct process *process);
/* Whether it has ended; waits some milliseconds for it, and forgets what it prints meanwhile. */
int process_ended(const struct process *process);
/* how: "exit status 2", "signal 11 (Segmentation fault)". The status, or -1 where something ended it. */
int process_end(struct process *process, char *how, size_t size);
/* Ends it in the middle of whatever it does. */
void process_kill(const struct process *process);

/* The words that the command was called with, in UTF-8; what main was given, but on Windows. */
char **process_words(int *count, char **words);

#endif
