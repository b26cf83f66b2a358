/* Threads, as far as clattn needs them: a lock, and a loop over all cores. */
#ifndef CLATTN_SRC_THREAD_H
#define CLATTN_SRC_THREAD_H

#include <stdint.h>

#ifdef _WIN32
typedef struct mutex { /* an SRWLOCK; not declared as such because windows.h defines NEAR, IN, FLOAT and other names */
    void *lock;
} mutex;
#define MUTEX_INIT                                                                                                     \
    {                                                                                                                  \
        0                                                                                                              \
    }
#else
#include <pthread.h>
typedef pthread_mutex_t mutex;
#define MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#endif

void lock_init(mutex *lock);
void lock_take(mutex *lock);
void lock_give(mutex *lock);
void lock_destroy(mutex *lock);

/* Calls body(user, i) for every i below count, on as many threads as the machine has cores. Returns when all calls have
 * returned. If no thread can be started, the caller's thread does the work. */
void parallel_for(int64_t count, void (*body)(void *user, int64_t i), void *user);
/* The same on that many threads, including the caller's. */
void parallel_on(int threads, int64_t count, void (*body)(void *user, int64_t i), void *user);
int core_count(void);

#endif
