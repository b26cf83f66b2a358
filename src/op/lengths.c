/* The lengths of sequences, where the host has them: cu_seqlens, cu_seqlens_kv, kv_lens. */
#include "op/arguments.h"
#include "op/problem.h"

#include <string.h>

/* Entry n of an operand of integers, which need not be aligned. */
static int64_t entry_of(const struct problem *problem, clattn_operand_id id, const clattn_operand *operand, int64_t n)
{
    const char *data = (const char *)operand->host + operand->offset;
    int32_t narrow;
    int64_t wide;

    if (id != CLATTN_KV_LENS && (problem->desc.flags & CLATTN_CU_SEQLENS_INT64)) {
        memcpy(&wide, data + n * (int64_t)sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, data + n * (int64_t)sizeof narrow, sizeof narrow);
    return narrow;
}

/* Checks the starts of sequences, the last of which is the end: the length that `whole` names. */
static clattn_status check_cuts(const struct problem *problem, const struct extent *extent, clattn_operand_id id,
                                const clattn_operand *cu, int64_t length, const char *whole, const struct log *log)
{
    int64_t before = 0, now = 0;

    if (cu->host == NULL)
        return CLATTN_SUCCESS;
    for (int64_t n = 0; n <= extent->sequences; n++, before = now) {
        now = entry_of(problem, id, cu, n);
        if (now < before || now > length || (n == 0 && now != 0))
            return FAIL(log, INVALID_OPERAND, "%s[%lld] is %lld, expected %s%lld to %lld", operand_name(id),
                        (long long)n, (long long)now, n == 0 ? "0, then " : "", (long long)before, (long long)length);
    }
    if (now != length)
        return FAIL(log, INVALID_OPERAND, "%s ends at %lld, expected %s %lld", operand_name(id), (long long)now, whole,
                    (long long)length);
    return CLATTN_SUCCESS;
}

/* Checks the number of keys in use, of those that each sequence may have. */
static clattn_status check_keys(const struct problem *problem, const struct extent *extent,
                                const struct arguments *host, const struct log *log)
{
    const clattn_operand *lens = &host->of[CLATTN_KV_LENS], *cu = &host->of[CLATTN_SEQLENS_KV];

    for (int64_t n = 0; lens->host != NULL && n < extent->sequences; n++) {
        int64_t length = entry_of(problem, CLATTN_KV_LENS, lens, n), most = extent->kv_len;
        if (cu->host != NULL)
            most = entry_of(problem, CLATTN_SEQLENS_KV, cu, n + 1) - entry_of(problem, CLATTN_SEQLENS_KV, cu, n);
        if (length < 0 || length > most)
            return FAIL(log, INVALID_OPERAND, "kv_lens[%lld] is %lld, expected 0 to the sequence's %lld keys",
                        (long long)n, (long long)length, (long long)most);
    }
    return CLATTN_SUCCESS;
}

clattn_status problem_check_lengths(const struct problem *problem, const struct extent *extent,
                                    const struct arguments *host, const struct log *log)
{
    TRY(check_cuts(problem, extent, CLATTN_SEQLENS, &host->of[CLATTN_SEQLENS], extent->seq_len, "seq_len", log));
    TRY(check_cuts(problem, extent, CLATTN_SEQLENS_KV, &host->of[CLATTN_SEQLENS_KV], extent->kv_len, "kv_len", log));
    return check_keys(problem, extent, host, log);
}
