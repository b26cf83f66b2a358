/* The search for the fastest provider of a matrix product and the fastest parameters of each provider. One parameter
 * changes at a time, until a round over all of them improves nothing or the time is over. CLBlast's parameters
 * constrain each other, so its points are drawn at random among those that keep the constraints. A point's time
 * counts only if its results are right. */
#ifndef CLATTN_SRC_TUNER_GEMM_SEARCH_H
#define CLATTN_SRC_TUNER_GEMM_SEARCH_H

#include "tune/tuning_table.h"
#include "tuner/timed_product.h"

struct gemm_search {
    const struct check_device *device;
    struct log log;
    double budget; /* seconds for each provider */
    uint32_t seed;
    /* Called with the best point of each provider. */
    void (*found)(void *user, const char *provider, const struct tuning_entry *entry);
    void *user;
};

/* Puts an entry into the table for each provider that computes the product. The fastest has from_rows 0. */
clattn_status gemm_search(const struct gemm_search *search, const clattn_gemm_desc *desc, struct tuning_table *table);

#endif
