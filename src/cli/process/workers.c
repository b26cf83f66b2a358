#include "cli/process/workers.h"

#include "base/text.h"
#include "device/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void workers_init(struct workers *workers)
{
    lock_init(&workers->lock);
}

/* To be freed; NULL at the end of the file. */
static char *read_line(FILE *file)
{
    struct text line = {0};
    int byte = getc(file);

    if (byte == EOF)
        return NULL;
    for (; byte != EOF && byte != '\n'; byte = getc(file)) {
        char c = (char)byte;
        text_add(&line, &c, 1);
    }
    text_add(&line, "", 0);
    return text_take(&line);
}

/* NULL with errno if none was started. */
static struct process *start_worker(struct workers *workers, const char *const *words)
{
    struct process *worker = workers->processes;
    int started = 0;

    lock_take(&workers->lock);
    errno = ECANCELED;
    if (!workers->stopped) {
        while (worker->id != 0)
            worker++;
        started = process_start(worker, words) == 0;
    }
    lock_give(&workers->lock);
    return started ? worker : NULL;
}

/* The lock keeps workers_stop away from an id that is free again. */
static int end_worker(struct workers *workers, struct process *worker, char *how, size_t size)
{
    int status;

    process_wait(worker);
    lock_take(&workers->lock);
    status = process_end(worker, how, size);
    lock_give(&workers->lock);
    return status;
}

int workers_run(struct workers *workers, const char *const *words, void (*on_line)(void *user, char *line), void *user,
                char *how, size_t size)
{
    struct process *worker = start_worker(workers, words);
    char *line;

    if (worker == NULL) {
        snprintf(how, size, "none started: %s", strerror(errno));
        return -1;
    }
    while (worker->output != NULL && (line = read_line(worker->output)) != NULL) {
        on_line(user, line);
        free(line);
    }
    return end_worker(workers, worker, how, size);
}

void workers_stop(struct workers *workers)
{
    lock_take(&workers->lock);
    workers->stopped = 1;
    for (size_t i = 0; i < MAX_WORKERS; i++)
        if (workers->processes[i].id != 0) {
            process_kill(&workers->processes[i]);
            cache_drop_unfinished((unsigned long)workers->processes[i].id);
        }
    lock_give(&workers->lock);
}
