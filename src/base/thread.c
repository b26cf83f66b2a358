#include "base/thread.h"

#include <stdatomic.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

typedef HANDLE thread_handle;

_Static_assert(sizeof(mutex) == sizeof(SRWLOCK), "a mutex is an SRWLOCK");

void lock_init(mutex *lock)
{
    InitializeSRWLock((SRWLOCK *)lock);
}
void lock_take(mutex *lock)
{
    AcquireSRWLockExclusive((SRWLOCK *)lock);
}
void lock_give(mutex *lock)
{
    ReleaseSRWLockExclusive((SRWLOCK *)lock);
}
void lock_destroy(mutex *lock)
{
    (void)lock;
}

int core_count(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}

#else
#include <unistd.h>

typedef pthread_t thread_handle;

void lock_init(mutex *lock)
{
    pthread_mutex_init(lock, NULL);
}
void lock_take(mutex *lock)
{
    pthread_mutex_lock(lock);
}
void lock_give(mutex *lock)
{
    pthread_mutex_unlock(lock);
}
void lock_destroy(mutex *lock)
{
    pthread_mutex_destroy(lock);
}

int core_count(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

#endif

enum { MAX_THREADS = 64 };

struct loop {
    atomic_llong next;
    int64_t count;
    void (*body)(void *user, int64_t i);
    void *user;
};

static void loop_run(struct loop *loop)
{
    int64_t i;

    while ((i = atomic_fetch_add(&loop->next, 1)) < loop->count)
        loop->body(loop->user, i);
}

#ifdef _WIN32
static DWORD WINAPI loop_main(void *loop)
{
    loop_run(loop);
    return 0;
}

static int thread_start(thread_handle *thread, struct loop *loop)
{
    *thread = CreateThread(NULL, 0, loop_main, loop, 0, NULL);
    return *thread != NULL;
}

static void thread_join(thread_handle thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}
#else
static void *loop_main(void *loop)
{
    loop_run(loop);
    return NULL;
}

static int thread_start(thread_handle *thread, struct loop *loop)
{
    return pthread_create(thread, NULL, loop_main, loop) == 0;
}

static void thread_join(thread_handle thread)
{
    pthread_join(thread, NULL);
}
#endif

void parallel_on(int wanted, int64_t count, void (*body)(void *user, int64_t i), void *user)
{
    struct loop loop = {.count = count, .body = body, .user = user};
    thread_handle threads[MAX_THREADS];
    int started = 0;

    atomic_init(&loop.next, 0);
    if (wanted > count)
        wanted = (int)count;
    while (started < wanted - 1 && started < MAX_THREADS && thread_start(&threads[started], &loop))
        started++;
    loop_run(&loop);
    while (started > 0)
        thread_join(threads[--started]);
}

void parallel_for(int64_t count, void (*body)(void *user, int64_t i), void *user)
{
    parallel_on(core_count(), count, body, user);
}
