/* A libOpenCL in the place of the machine's, which lies.h describes: it opens the real one, whose path is
 * LYING_OPENCL_REAL, and passes on what it has no lie for. */
#include "lies.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct opencl table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    const char *text = getenv("CLATTN_TEST_LIES");
    void *real = dlopen(LYING_OPENCL_REAL, RTLD_NOW | RTLD_LOCAL), *symbol;

#define LOAD(result, name, parameters)                                                                                 \
    symbol = real != NULL ? dlsym(real, "cl" #name) : NULL;                                                            \
    memcpy(&table.name, &symbol, sizeof symbol);
    OPENCL_FUNCTIONS(LOAD)
#undef LOAD
    if (real == NULL || text == NULL || !lies_put(&table, text)) {
        fprintf(stderr, "lying_opencl: %s\n", real == NULL ? dlerror() : "CLATTN_TEST_LIES, or POCL_DEVICES, is amiss");
        abort();
    }
}

static const struct opencl *get_table(void)
{
    pthread_once(&once, load);
    return &table;
}

/* DECLARE (int, char *) is (int p1, char *p2), PASS of the same (p1, p2). */
#define PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, NAME, ...) NAME
#define DECLARE(...) PICK(__VA_ARGS__, D9, D8, D7, D6, D5, D4, D3, D2, D1, )(__VA_ARGS__)
#define PASS(...) PICK(__VA_ARGS__, P9, P8, P7, P6, P5, P4, P3, P2, P1, )
#define D1(a) (a p1)
#define D2(a, b) (a p1, b p2)
#define D3(a, b, c) (a p1, b p2, c p3)
#define D4(a, b, c, d) (a p1, b p2, c p3, d p4)
#define D5(a, b, c, d, e) (a p1, b p2, c p3, d p4, e p5)
#define D6(a, b, c, d, e, f) (a p1, b p2, c p3, d p4, e p5, f p6)
#define D7(a, b, c, d, e, f, g) (a p1, b p2, c p3, d p4, e p5, f p6, g p7)
#define D8(a, b, c, d, e, f, g, h) (a p1, b p2, c p3, d p4, e p5, f p6, g p7, h p8)
#define D9(a, b, c, d, e, f, g, h, i) (a p1, b p2, c p3, d p4, e p5, f p6, g p7, h p8, i p9)
#define P1 (p1)
#define P2 (p1, p2)
#define P3 (p1, p2, p3)
#define P4 (p1, p2, p3, p4)
#define P5 (p1, p2, p3, p4, p5)
#define P6 (p1, p2, p3, p4, p5, p6)
#define P7 (p1, p2, p3, p4, p5, p6, p7)
#define P8 (p1, p2, p3, p4, p5, p6, p7, p8)
#define P9 (p1, p2, p3, p4, p5, p6, p7, p8, p9)

#define FORWARD(result, name, parameters)                                                                              \
    CL_API_ENTRY result CL_API_CALL cl##name DECLARE parameters                                                        \
    {                                                                                                                  \
        return get_table()->name PASS parameters;                                                                      \
    }
OPENCL_FUNCTIONS(FORWARD)
