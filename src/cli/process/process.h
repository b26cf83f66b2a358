/* Worker processes: this command with other arguments. They ignore SIGINT, SIGTERM and SIGHUP; their parent handles
 * these and ends them. */
#ifndef CLATTN_SRC_CLI_PROCESS_PROCESS_H
#define CLATTN_SRC_CLI_PROCESS_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct process {
    intptr_t id;  /* 0: none */
    FILE *output; /* stdout and stderr of the worker */
};

/* words ends with NULL; the first is the name of this command. One thread at a time. 0, or -1 with errno. */
int process_start(struct process *process, const char *const *words);
/* Waits until the process has ended. Its id stays reserved until process_end. */
void process_wait(const struct process *process);
/* Whether it has ended. Waits some milliseconds for it, and drops what it prints meanwhile. */
int process_ended(const struct process *process);
/* how: "exit status 2", "signal 11 (Segmentation fault)" or, after process_kill, "an unknown status". Returns the exit status, or
 * -1 if there is none. */
int process_end(struct process *process, char *how, size_t size);
/* Ends it at once. */
void process_kill(const struct process *process);

/* Becomes another program, with these words after its name: the one of that name in this program's folder, or in PATH.
 * Returns if there is none. */
void process_replace(const char *name, char **words);

/* The words that the command was called with, in UTF-8. Elsewhere than on Windows these are the words of main. */
char **process_words(int *count, char **words);

#endif
