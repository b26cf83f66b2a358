#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "cli/process/interrupt.h"

#ifdef _WIN32
#include <io.h>
#define write _write
#else
#include <pthread.h>
#include <unistd.h>
#endif
#include <stdlib.h>
#include <string.h>

static struct {
    void (*interrupted)(void *user, int signal);
    void *user;
#ifndef _WIN32
    sigset_t set;
#endif
} watch;

static struct {
    volatile sig_atomic_t *set;
    const char *line;
    unsigned length;
} flag;

static void on_first(int number)
{
    *flag.set = 1;
    signal(number, SIG_DFL);
    if (write(2, flag.line, flag.length) < 0)
        return; /* nobody reads it */
}

void interrupt_flag(volatile sig_atomic_t *set, const char *line)
{
    flag.set = set;
    flag.line = line;
    flag.length = (unsigned)strlen(line);
    signal(SIGINT, on_first);
}

void interrupt_exit(int number)
{
    _Exit(128 + number);
}

#ifdef _WIN32

/* Called on a thread of its own. */
static void on_signal(int number)
{
    signal(number, SIG_DFL);
    watch.interrupted(watch.user, number);
}

void interrupt_watch(void (*interrupted)(void *user, int signal), void *user)
{
    watch.interrupted = interrupted;
    watch.user = user;
    signal(SIGINT, on_signal);
}

#else

static sigset_t watched_set(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    sigset_t set, blocked;

    sigemptyset(&set);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigismember(&blocked, numbers[i]) && sigaction(numbers[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            sigaddset(&set, numbers[i]);
    return set;
}

static void *wait_for_signal(void *user)
{
    int number;

    (void)user;
    if (sigwait(&watch.set, &number) == 0) {
        pthread_sigmask(SIG_UNBLOCK, &watch.set, NULL);
        watch.interrupted(watch.user, number);
    }
    return NULL;
}

void interrupt_watch(void (*interrupted)(void *user, int signal), void *user)
{
    pthread_t thread;

    watch.interrupted = interrupted;
    watch.user = user;
    watch.set = watched_set();
    pthread_sigmask(SIG_BLOCK, &watch.set, NULL);
    if (pthread_create(&thread, NULL, wait_for_signal, NULL) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &watch.set, NULL);
}
#endif
