#ifndef _WIN32 /* else process_windows.c */
#define _POSIX_C_SOURCE 200809L
#include "cli/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OWN_PATH = 4096 };

/* The file of this very process, which may have been replaced or moved in PATH since; under its name where it has that
 * still, for who lists processes. */
static const char *own_path(const char *name, char path[OWN_PATH])
{
    static const char self[] = "/proc/self/exe";
    struct stat own, named;
    ssize_t size = readlink(self, path, OWN_PATH - 1);

    if (size < 0 || stat(self, &own) != 0)
        return name;
    path[size] = '\0';
    return stat(path, &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev ? path : self;
}

static const int not_taken[] = {SIGINT, SIGTERM, SIGHUP};

/* stdin is empty, output takes all that is printed. */
static int redirect(posix_spawn_file_actions_t *actions, int output)
{
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
    return error != 0 ? error : posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
}

static int spawn(struct process *process, const char *const *words, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t blocked;
    pid_t id;
    char **words_of_c = (char **)(size_t)words; /* which exec leaves alone */
    char path[OWN_PATH];
    int error;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof not_taken / sizeof *not_taken; i++)
        sigaddset(&blocked, not_taken[i]);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    error = redirect(&actions, output);
    if (error == 0)
        error = posix_spawnp(&id, own_path(words[0], path), &actions, &attributes, words_of_c, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    process->id = error == 0 ? (intptr_t)id : 0;
    return error;
}

/* The ends of the pipe close in other workers, or its end would not be seen. */
int process_start(struct process *process, const char *const *words)
{
    int ends[2], error;

    *process = (struct process){.id = 0};
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    error = spawn(process, words, ends[1]);
    close(ends[1]);
    process->output = error == 0 ? fdopen(ends[0], "r") : NULL;
    if (process->output == NULL)
        close(ends[0]);
    errno = error;
    return error == 0 ? 0 : -1;
}

void process_await(const struct process *process)
{
    siginfo_t info;

    while (waitid(P_PID, (id_t)process->id, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
}

int process_ended(const struct process *process)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    struct pollfd output = {.fd = process->output != NULL ? fileno(process->output) : -1, .events = POLLIN};
    siginfo_t info = {.si_pid = 0};
    char forgotten[512];

    if (waitid(P_PID, (id_t)process->id, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid != 0)
        return 1;
    if (poll(&output, 1, 5) <= 0 || read(output.fd, forgotten, sizeof forgotten) <= 0)
        nanosleep(&tick, NULL);
    return 0;
}

int process_end(struct process *process, char *how, size_t size)
{
    int status = 0;

    while (waitpid((pid_t)process->id, &status, 0) < 0 && errno == EINTR)
        continue;
    if (process->output != NULL)
        fclose(process->output);
    *process = (struct process){.id = 0};
    if (WIFSIGNALED(status))
        snprintf(how, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, size, "exit status %d", WEXITSTATUS(status));
    return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

/* A process that is deep in a driver may outlive this by a while. */
void process_kill(const struct process *process)
{
    const struct timespec tick = {.tv_nsec = 10000000};
    int status;

    kill((pid_t)process->id, SIGKILL);
    for (int i = 0; i < 100 && waitpid((pid_t)process->id, &status, WNOHANG) == 0; i++)
        nanosleep(&tick, NULL);
}

char **process_words(int *count, char **words)
{
    (void)count;
    return words;
}

#else
typedef int clattn_not_on_this_system; /* a file may not be empty */
#endif
