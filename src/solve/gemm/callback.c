/* A product by the application's own function. */
#include "solve/gemm/way.h"

static int applies(clattn_context *context, const struct gemm *gemm)
{
    (void)context;
    return gemm->desc.callback != NULL;
}

static clattn_status enqueue(const struct ir_foreign *foreign)
{
    clattn_gemm_call call;
    struct gemm gemm;

    product_asked(foreign, &gemm, &call);
    return gemm.desc.callback(gemm.desc.user, &gemm.desc, foreign->queue, &call, foreign->n_wait, foreign->wait,
                              foreign->event);
}

const struct gemm_way gemm_callback = {
    .provider = "callback", .fixed = 1, .applies = applies, .add = product_foreign, .enqueue = enqueue};
