/* A product by CLBlast, where it is on the machine: opened at run time, never linked. */
#include "solve/gemm/clblast.h"
#include "solve/gemm/way.h"

#include "base/system.h"
#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

/* Values of the enums in clblast_c.h, and its two functions for each type. */
enum { ROW_MAJOR = 101, NOT_TURNED = 111, TURNED = 112 };

#define GEMM_PARAMETERS(type)                                                                                          \
    (int layout, int a_turned, int b_turned, size_t m, size_t n, size_t k, type alpha, const cl_mem a, size_t a_at,    \
     size_t lda, const cl_mem b, size_t b_at, size_t ldb, type beta, cl_mem d, size_t d_at, size_t ldd,                \
     cl_command_queue *queue, cl_event *event)
#define BATCH_PARAMETERS(type)                                                                                         \
    (int layout, int a_turned, int b_turned, size_t m, size_t n, size_t k, type alpha, const cl_mem a, size_t a_at,    \
     size_t lda, size_t a_stride, const cl_mem b, size_t b_at, size_t ldb, size_t b_stride, type beta, cl_mem d,       \
     size_t d_at, size_t ldd, size_t d_stride, size_t batch, cl_command_queue *queue, cl_event *event)

struct clblast_table {
    int(*single) GEMM_PARAMETERS(float);
    int(*batch) BATCH_PARAMETERS(float);
    int(*single_half) GEMM_PARAMETERS(cl_half);
    int(*batch_half) BATCH_PARAMETERS(cl_half);
    int (*override)(const cl_device_id device, const char *kernel, int precision, size_t count, const char **names,
                    const size_t *values);
};

#if defined(_WIN32)
static const char soname[] = "clblast.dll";
#elif defined(__APPLE__)
static const char soname[] = "libclblast.1.dylib";
#else
static const char soname[] = "libclblast.so.1";
#endif

/* CLBlast keeps its programs for the whole process. Before version 1.6.1 it does so without a lock. */
static mutex calls = MUTEX_INIT;

static void load(struct clblast_table *clblast, void *library)
{
    const struct {
        void *to;
        const char *name;
    } functions[] = {{&clblast->single, "CLBlastSgemm"},
                     {&clblast->batch, "CLBlastSgemmStridedBatched"},
                     {&clblast->single_half, "CLBlastHgemm"},
                     {&clblast->batch_half, "CLBlastHgemmStridedBatched"},
                     {&clblast->override, "CLBlastOverrideParameters"}};

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = library_symbol(library, functions[i].name);
        if (symbol == NULL) { /* another library of the same name */
            memset(clblast, 0, sizeof *clblast);
            return;
        }
        memcpy(functions[i].to, &symbol, sizeof symbol);
    }
}

/* The context's table, which is looked up once, or NULL if CLBlast is not installed. */
static const struct clblast_table *open_library(clattn_context *context)
{
    const char *name = context->clblast_name != NULL ? context->clblast_name : soname;
    struct clblast_table *clblast;

    lock_take(&calls);
    if (context->clblast == NULL && (context->clblast = calloc(1, sizeof *clblast)) != NULL) {
        void *library = *name != '\0' ? library_open(name) : NULL;
        if (library != NULL)
            load(context->clblast, library);
    }
    clblast = context->clblast;
    lock_give(&calls);
    return clblast != NULL && clblast->single != NULL ? clblast : NULL;
}

/* CLBlast is not asked for what it would refuse, which it would say on stderr. */
static int applies(clattn_context *context, const struct gemm *gemm)
{
    const clattn_gemm_desc *d = &gemm->desc;

    if (d->flags & CLATTN_GEMM_WITH_C || d->dtype == CLATTN_BF16 || gemm_type(&gemm->desc, GEMM_D) != d->dtype)
        return 0;
    if (d->dtype == CLATTN_F16 && !device_has(&context->device, "cl_khr_fp16"))
        return 0;
    return open_library(context) != NULL;
}

/* ---- Parameters of its kernel Xgemm: all of them, or none ---------------------------------------------------------
 */

#define TILES_ROW(name, ...) PARAMETER_ROW(#name, struct clblast_tiles, name, __VA_ARGS__),
static const struct parameter parameters[] = {CLBLAST_PARAMETERS(TILES_ROW) PARAMETERS_END};
static const struct space clblast_space = {"gemm_clblast", parameters, 0, 0, 0, 1};

int clblast_is_sound(const struct clblast_tiles *t, size_t most_group)
{
    const int rows = t->MDIMC * t->NDIMC;

    return t->GEMMK == 0 && t->KREG == 1 && t->KWG % t->KWI == 0 && t->MWG % (t->MDIMC * t->VWM) == 0 &&
           t->NWG % (t->NDIMC * t->VWN) == 0 && t->MWG % (t->MDIMA * t->VWM) == 0 &&
           t->NWG % (t->NDIMB * t->VWN) == 0 && rows % t->MDIMA == 0 && rows % t->NDIMB == 0 &&
           t->KWG % (rows / t->MDIMA) == 0 && t->KWG % (rows / t->NDIMB) == 0 && (size_t)rows <= most_group;
}

static int override(const clattn_context *context, clattn_dtype dtype, const struct clblast_tiles *t)
{
#define TILE_NAME(name, ...) #name,
#define TILE_VALUE(name, ...) (size_t) t->name,
    const char *names[] = {CLBLAST_PARAMETERS(TILE_NAME)};
    const size_t values[] = {CLBLAST_PARAMETERS(TILE_VALUE)};
    int status;

    lock_take(&calls);
    status = context->clblast->override(context->device.info.device, "Xgemm", dtype == CLATTN_F32 ? 32 : 16,
                                        sizeof names / sizeof *names, names, values);
    lock_give(&calls);
    return status;
}

/* Gives its kernel these parameters, for the whole process and the device. Those that break its constraints are
 * UNSUPPORTED; what it computes with others is to be checked. */
static clattn_status prepare(clattn_context *context, const struct gemm *gemm, const void *tiles)
{
    for (size_t i = 0; i < sizeof(struct clblast_tiles) / sizeof(int); i++)
        if (((const int *)tiles)[i] == TILE_OPEN)
            return CLATTN_SUCCESS;
    if (!clblast_is_sound(tiles, context->device.info.max_work_group)) {
        log_line(&context->log, CLATTN_LOG_WARNING,
                 "gemm on %s: parameters for CLBlast break its constraints: not used", context->device.info.name);
        return CLATTN_UNSUPPORTED;
    }
    return override(context, gemm->desc.dtype, tiles) == 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Calls --------------------------------------------------------------------------------------------------------
 */

/* A float in 16 bits, to the nearest. */
static cl_half half_of(double x)
{
    uint16_t bits;

    number_store(CLATTN_F16, &bits, 0, x);
    return bits;
}

#define SIZES                                                                                                          \
    ROW_MAJOR, gemm_turned(gemm, GEMM_A) ? TURNED : NOT_TURNED, gemm_turned(gemm, GEMM_B) ? TURNED : NOT_TURNED,       \
        (size_t)d->m, (size_t)d->n, (size_t)d->k
#define AT(x, X) call->x, call->x##_offset / element, (size_t)gemm->of[X].ld
#define EACH(X) (size_t) gemm->of[X].stride

static int call_it(const struct clblast_table *clblast, const struct gemm *gemm, cl_command_queue queue,
                   const clattn_gemm_call *call, cl_event *event)
{
    const clattn_gemm_desc *d = &gemm->desc;
    const size_t element = (size_t)dtype_size(d->dtype), batch = (size_t)d->batch;
    const float alpha = (float)d->alpha, beta = (float)d->beta;

    if (d->dtype == CLATTN_F32 && batch == 1)
        return clblast->single(SIZES, alpha, AT(a, GEMM_A), AT(b, GEMM_B), beta, AT(d, GEMM_D), &queue, event);
    if (d->dtype == CLATTN_F32)
        return clblast->batch(SIZES, alpha, AT(a, GEMM_A), EACH(GEMM_A), AT(b, GEMM_B), EACH(GEMM_B), beta,
                              AT(d, GEMM_D), EACH(GEMM_D), batch, &queue, event);
    if (batch == 1)
        return clblast->single_half(SIZES, half_of(d->alpha), AT(a, GEMM_A), AT(b, GEMM_B), half_of(d->beta),
                                    AT(d, GEMM_D), &queue, event);
    return clblast->batch_half(SIZES, half_of(d->alpha), AT(a, GEMM_A), EACH(GEMM_A), AT(b, GEMM_B), EACH(GEMM_B),
                               half_of(d->beta), AT(d, GEMM_D), EACH(GEMM_D), batch, &queue, event);
}

/* CLBlast knows no wait list: a barrier stands before where there is one. */
static clattn_status enqueue(const struct ir_foreign *foreign)
{
    const struct built_product *product = foreign->user;
    const struct opencl *cl = product->context->device.cl;
    clattn_gemm_call call;
    struct gemm gemm;
    int status;

    product_asked(foreign, &gemm, &call);
    if (foreign->n_wait > 0)
        TRY_CL(foreign->log, cl, EnqueueBarrierWithWaitList, foreign->queue, foreign->n_wait, foreign->wait, NULL);
    lock_take(&calls);
    status = call_it(product->context->clblast, &gemm, foreign->queue, &call, foreign->event);
    lock_give(&calls);
    return status == 0 ? CLATTN_SUCCESS : FAIL(foreign->log, DEVICE_ERROR, "CLBlast's status is %d", status);
}

const struct gemm_way gemm_clblast = {.provider = "clblast",
                                      .space = &clblast_space,
                                      .fixed = 1,
                                      .allocates = 1,
                                      .tiles_size = sizeof(struct clblast_tiles),
                                      .applies = applies,
                                      .prepare = prepare,
                                      .add = product_foreign,
                                      .enqueue = enqueue};
