/* test_threads WHAT: kernels on a device that runs every work-item by itself (tests/threads). rows: matrix kernels as
 * NVIDIA runs them, with sub-groups that load, read and compute, and plain kernels in groups that share tiles, against
 * the reference. mistakes: the same with a barrier left out, or something else: each must be found, or the device is of
 * no use. */
#include "threads/threads.h"

#include "device/opencl.h"
#include "plan/gemm.h"
#include "plan/plan.h"
#include "op/rule.h"
#include "reference/gemm.h"
#include "reference/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BOTH = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE, NORM = CLATTN_QK_L2NORM, CU = CLATTN_CU_SEQLENS };
#define USUAL CHECK_GATES_USUAL

static const int64_t gaps[] = {0, 0, 1, 52, 53}, wide_gaps[] = {0, 0, 1, 74, 75};

/* clang-format off */
static const struct check_case
    tail   = { "tail",   1,  75, 1, 1, 32, 32, BOTH,        USUAL,            NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    odd    = { "odd",    1,  45, 2, 1, 40, 20, BOTH | NORM, CHECK_GATES_HARD, NULL, 0, 0, 1, 0, 0, 0, 0, 0 },
    packed = { "packed", 1,  53, 1, 1, 32, 32, BOTH | CU,   USUAL,            gaps, 4, 0, 0, 0, 0, 0, 0, 0 },
    gapped = { "gapped", 1,  75, 1, 1, 32, 32, BOTH | CU,   USUAL,            wide_gaps, 4, 0, 0, 0, 0, 0, 0, 0 },
    wide   = { "wide",   1,  40, 1, 1, 32, 128, BOTH,       USUAL,            NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    sharp  = { "sharp",  1,  75, 1, 1, 32, 32, 0,           USUAL,            NULL, 0, 2, 0, 0, 0, 0, 0, 0 }, /* maxima that rise */
    turns  = { "turns",  1, 400, 1, 1, 64, 16, CLATTN_UNGATED, CHECK_GATES_HARD, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }, /* beta near 2 */
    deep   = { "deep",   0, 130, 0, 0, 330, 72, 0,          USUAL,            NULL, 0, 0, 0, 0, 0, 0, 0, 0 }, /* of a product k and n */
    behind = { "behind", 1,  70, 2, 1, 40, 24, CLATTN_UNGATED, USUAL,         NULL, 0, 0, 0, 0, 0, 250, 200, 0 }, /* a block before the first key */
    tailed = { "tailed", 1,  20, 1, 1, 56, 16, 0,           USUAL,            NULL, 0, 0, 0, 0, 0, 230, 0, 90 },
    writes = { "writes", 1, 300, 1, 1, 40, 24, NORM,        USUAL,            NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    loud   = { "loud",   1, 140, 1, 1, 64, 16, 0,           USUAL,            NULL, 0, 4, 0, 0, 0, 0, 0, 0 }, /* scores past what f16 has of e^ */
    small  = { "small",  1,  70, 1, 1, 64, 64, BOTH,        USUAL,            NULL, 0, 0, 0, 0, 0, 0, 0, 0 }, /* tiles in 8 KiB of local memory */
    spans  = { "spans",  1, 530, 1, 1, 32, 32, BOTH,        CHECK_GATES_SLOW, NULL, 0, 0, 0, 0, 0, 0, 0, 0 };

#define PRODUCT "product" /* no rule: of T x K by K x V, chunk is its flags, of what lies turned */
/* A rule, its shape, and the point of the solver's space, what is not in it by rule of thumb; and what the plan says it
 * is. */
struct row {
    const char *engine, *rule;
    clattn_dtype dtype;
    int32_t chunk;
    const struct check_case *shape;
    const char *point, *plan;
};

#define ENGINE "nvidia_threads"
#define APART "scan.block_v 32 scan.readers 1", "readers 2, loaders 4, depth 2, stages 2"
#define LANES "chunk 16 vec 4 prepare.group 64 scan.group 64", "scan       group 64"
static const struct row
    erases   = { ENGINE, "gated_delta_rule", CLATTN_BF16, 32, &tail,   APART },
    one      = { ENGINE, "gated_delta_rule", CLATTN_F16,  16, &packed,
                 "scan.block_v 32 scan.readers 0 scan.stages 1", "readers 0, loaders 4, depth 1, stages 1" },
    alone    = { ENGINE, "gated_delta_rule", CLATTN_BF16, 16, &odd,
                 "scan.block_v 32 scan.loaders 0", "readers 0, loaders 0" },
    split    = { ENGINE, "gated_delta_rule", CLATTN_BF16, 32, &tail,   "scan.block_v 32 key_split 2", "key split 2" },
    segments = { ENGINE, "gated_delta_rule", CLATTN_BF16, 16, &spans,
                 "scan.block_v 32 scan.segments 4", "segments 4, gathers" },
    gathers  = { ENGINE, "simple_gla",       CLATTN_BF16, 16, &spans,
                 "scan.block_v 32 scan.segments 4", "segments 4, gathers" },
    scored   = { ENGINE, "simple_gla",       CLATTN_F16,  32, &wide,   "scan.block_v 128", "value tile 128 by 4" },
    channels = { ENGINE, "kda",              CLATTN_F16,  16, &odd,
                 "scan.block_v 32 scan.readers 1 scan.depth 3", "readers 2, loaders 4, depth 3" },
    low_rank = { ENGINE, "rwkv7",            CLATTN_BF16, 16, &tail,   APART },
    gated    = { ENGINE, "gdn2",             CLATTN_BF16, 16, &tail,   APART },
    sums     = { ENGINE, "mlstm",            CLATTN_BF16, 16, &tail,   "scan.block_v 32", "loaders 4" },
    lanes    = { "none", "gated_delta_rule", CLATTN_F32,  16, &tail,   LANES },
    cdna     = { "amd_cdna_emulated",  "gated_delta_rule", CLATTN_BF16, 16, &tail,   "scan.block_v 32", "loaders 0" },
    cdna_sum = { "amd_cdna_emulated",  "simple_gla",       CLATTN_F16,  16, &tail,   "scan.block_v 32", "loaders 0" },
    rdna3    = { "amd_rdna3_emulated", "kda",              CLATTN_F16,  16, &odd,    "scan.block_v 32", "loaders 0" },
    intel_8  = { "intel_8_emulated",   "gated_delta_rule", CLATTN_BF16, 16, &tail,   "scan.block_v 32", "key split 2" },
    intel_16 = { "intel_16_emulated",  "simple_gla",       CLATTN_BF16, 16, &odd,    "scan.block_v 32", "key split 4" },
    nvidia   = { "nvidia_emulated",    "gated_delta_rule", CLATTN_BF16, 16, &packed, "scan.block_v 32", "loaders 0" },
    listed   = { ENGINE, "forgetting_attn",  CLATTN_BF16, 64, &tail,   "keys 32 stages 2", "by 2 sub-groups, queries held" },
    listed_1 = { ENGINE, "softmax_attn",     CLATTN_F16,  32, &odd,    "keys 16 stages 1", "stages 1" },
    listed_m = { ENGINE, "softmax_attn",     CLATTN_BF16, 32, &sharp,  "keys 16", "keys 16" },
    written  = { ENGINE, "deltaformer",      CLATTN_BF16, 16, &tail,   "splits 2", "in 2 parts" },
    written_1 = { ENGINE, "deltaformer",     CLATTN_F16,  32, &odd,
                 "before.stages 1 solve.subs 2 solve.block_v 16", "value tile 16 by 2 sub-groups" },
    written_t = { ENGINE, "deltaformer",     CLATTN_BF16, 0,  &writes, "span 128 splits 2", "in 2 parts" },
    written_l = { ENGINE, "deltaformer",     CLATTN_F16,  0,  &loud,   "span 256 splits 1", "in 1 parts" },
    written_p = { ENGINE, "deltaformer",     CLATTN_F16,  0,  &packed, "span 128 splits 1", "in 1 parts" },
    turned   = { ENGINE, "path_attn",        CLATTN_BF16, 32, &tail,   "span 32 keys 16 stages 1", "blocks of 16 keys, span of 32 keys" },
    turned_1 = { ENGINE, "path_attn",        CLATTN_F16,  32, &packed, "span 32 block_v 16", "value tile 16, stages 2" },
    turned_2 = { ENGINE, "path_attn",        CLATTN_BF16, 64, &turns,  "span 512", "span of 512 keys" },
    turned_t = { ENGINE, "path_attn",        CLATTN_BF16, 0, &turns,   "span 128", "span of 128 keys, chunk 128" },
    turned_p = { ENGINE, "path_attn",        CLATTN_F16,  0, &packed,  "span 128", "span of 128 keys, chunk 128" },
    turned_b = { ENGINE, "path_attn",        CLATTN_BF16, 0, &behind,  "span 128", "span of 128 keys, chunk 128" },
    turned_k = { ENGINE, "path_attn",        CLATTN_BF16, 0, &tailed,  "span 128", "span of 128 keys, chunk 128" },
    turned_8 = { "intel_8_emulated", "path_attn", CLATTN_BF16, 16, &tail, "", "span of 64 keys" },
    written_8 = { "intel_8_emulated", "deltaformer", CLATTN_BF16, 16, &tail, "", "span of 64 keys" },
    teams    = { ENGINE, "forgetting_attn",  CLATTN_BF16, 0, &tail,   "chunk 128 step 2 stages 3", "stages 3" },
    teams_1  = { ENGINE, "softmax_attn",     CLATTN_F16,  0, &odd,    "step 2 stages 2", "stages 2" },
    product  = { ENGINE, PRODUCT,            CLATTN_BF16, 0, &deep,    "chunk 128 rows 1 block_v 64 stages 3", "stages 3" },
    product_a = { ENGINE, PRODUCT,           CLATTN_BF16, CLATTN_GEMM_TRANS_A, &deep, "chunk 128 block_v 64", "2 x 4 each" },
    product_t = { ENGINE, PRODUCT,           CLATTN_F16,  CLATTN_GEMM_TRANS_B, &deep,    "chunk 128 rows 2 block_v 64 stages 2", "stages 2" },
    listed_8 = { "intel_8_emulated", "forgetting_attn", CLATTN_BF16, 16, &tail, "keys 32", "by 2 sub-groups" },
    narrow   = { "none", "gated_delta_rule", CLATTN_F32,  16, &small,
                 "vec 4 prepare.group 64 prepare.block_k 16 scan.group 64 scan.block_k 32 scan.block_v 4",
                 "key slice 32, value tile 4" },
    listed_l = { "none", "softmax_attn",     CLATTN_F32,  32, &small,
                 "group 64 block_k 8 block_v 64 tokens 8", "flash_blocks group 64, chunk 32, key slice 8" },
    blocks   = { "none", "gated_delta_rule", CLATTN_F32,  16, &odd,
                 "states.block_v 16 states.tokens 8 states.split 2 states.ahead 2", "states     group" },
    blocks_s = { "none", "simple_gla",       CLATTN_BF16, 16, &tail, "states.tokens 8 segments 2", "join" },
    blocks_2 = { "none", "rwkv7",            CLATTN_F32,  16, &tail, "states.tokens 8 states.ahead 2", "states     group" },
    mixes    = { "none", "rwkv6",            CLATTN_BF16, 16, &odd,    LANES },
    tokens   = { "none", "gated_delta_rule", CLATTN_F32,  1, &odd,
                 "vec 4 lanes_k 4 block_v 8 rows 8", "group 8, vec 4, rows 8" },
    parts    = { "none", "gla",              CLATTN_F32,  1, &tail,
                 "vec 4 lanes_k 2 block_v 16 rows 4 segments 4", "4 segments gathered" },
    parts_cu = { "none", "rwkv6",            CLATTN_BF16, 1, &gapped,
                 "vec 4 lanes_k 8 block_v 4 rows 2 segments 2", "2 segments gathered" };
static const struct row *const rows[] = {&erases, &one, &alone, &split, &segments,
                                         &gathers, &scored, &channels, &low_rank,
                                         &gated, &sums, &cdna, &cdna_sum, &rdna3,
                                         &intel_8, &intel_16, &nvidia, &lanes, &narrow, &mixes,
                                         &blocks, &blocks_s, &blocks_2,
                                         &tokens, &parts, &parts_cu,
                                         &listed, &listed_1, &listed_m, &listed_8, &listed_l, &teams, &teams_1,
                                         &product, &product_a, &product_t,
                                         &written, &written_1, &written_8,
                                         &written_t, &written_l, &written_p,
                                         &turned, &turned_1, &turned_2, &turned_8,
                                         &turned_t, &turned_p, &turned_b, &turned_k};

/* All of `from` in the kernels of a row is `to`: the report has `found`; where that is NULL the numbers are wrong. What
 * is UNORDERED is seen as a race, as a read of what nobody wrote, or as a lane that is a turn ahead, by which of the lanes
 * comes first. */
#define UNORDERED "race"
static const char *const unordered[] = {UNORDERED, "nobody wrote", "again before the others have come"};
#define NO_BARRIER(number) \
    "void threads_wait_own(void);", \
    "void threads_wait_own(void);\n" \
    "#define threads_wait(barrier, lanes) ((barrier) == " #number " ? (void)0 : threads_wait(barrier, lanes))\n" \
    "#define threads_signal(barrier, lanes) ((barrier) == " #number " ? (void)0 : threads_signal(barrier, lanes))\n"
static const struct mistake {
    const char *name;
    const struct row *row;
    const char *from, *to, *found;
} mistakes[] = {
    { "prepare: no barrier before frags",      &erases, "SYNC();\n}\nrecord_frags", "}\nrecord_frags", UNORDERED },
    { "prepare: no barrier before the erase",  &erases, "SYNC();\nif (ERASES)", "if (ERASES)", UNORDERED },
    { "prepare: records that overlap",         &erases, "chunk.at.head) * MATRIX_RECORD",
                                               "chunk.at.head) * (MATRIX_RECORD - 4)", "of another group" },
    { "AMD's prepare: the same",               &cdna,   "SYNC();\n}\nrecord_frags", "}\nrecord_frags", UNORDERED },
    { "scan: no barrier of the group",         &erases, NO_BARRIER(0), UNORDERED },
    { "scan: no barrier of the computing",     &split,  NO_BARRIER(1), UNORDERED },
    { "scan: no barrier of the loading",       &one,    NO_BARRIER(2), UNORDERED },
    { "scan: no word that queries are read",   &erases, NO_BARRIER(3), UNORDERED },
    { "scan: no word that the state is left",  &erases, NO_BARRIER(4), UNORDERED },
    { "scan: no word that writes are left",    &erases, NO_BARRIER(5), UNORDERED },
    { "scan: nor in the other turn",           &erases, NO_BARRIER(6), UNORDERED },
    { "scan: no barrier of a sub-group",       &erases, "\nthreads_wait_own();", "\n", UNORDERED },
    { "scan: loading does not wait",           &erases, "engine_sync_all();\nproducer_turn",
                                               "producer_turn", "wait for ever" },
    { "scan: computing does not wait",         &erases, "engine_sync_all();\nif (LOADERS == 0)\nproducer_turn",
                                               "if (LOADERS == 0)\nproducer_turn", UNORDERED },
    { "scan: reading does not signal",         &erases, "threads_signal(0, GROUP);", "", "wait for ever" },
    { "scan: output before values are loaded", &split,  "engine_sync(COMPUTE_LANES);\nif (OUTPUT_STAGED",
                                               ";\nif (OUTPUT_STAGED", UNORDERED },
    { "scan: A D left out",                    &erases, "O[n] = mix_written(m, O[n], X, D, A, n);", ";", NULL },
    { "recurrence: rows before the last are read", &tokens, "SYNC();\nif (!GATHER)\nquery_rows(", "query_rows(", UNORDERED },
    { "recurrence: outputs before their parts", &parts, "SYNC();\nfor_each(task, GATHER ? 0", "for_each(task, GATHER ? 0", UNORDERED },
    { "recurrence: one place for all tokens",  &tokens, "i % 2 * GROUP * VEC", "0", UNORDERED },
    { "recurrence: a part keeps all channels", &parts, "kept_channels[n] *= decay_of(decay, factor, own + n);", ";", NULL },
    { "blocks: D in the place of a state that is read", &blocks, "SYNC();\nif (SPLIT > 1) {\nif (lane_part > 0)\nwritten_put",
                                               "if (SPLIT > 1) {\nif (lane_part > 0)\nwritten_put", UNORDERED },
    { "blocks: sums of a part before they are there", &blocks, "written_put(writes, written);\nSYNC();", "written_put(writes, written);",
                                               UNORDERED },
    { "blocks: keys in the place of those that are read", &blocks_2, "SYNC();\ndecayed_keys_put", "decayed_keys_put", UNORDERED },
    { "blocks: scores in the place of slices", &blocks, "SYNC();\nfor_block(r, w, OUTPUT_ROWS, BOTH_WIDE)",
                                               "for_block(r, w, OUTPUT_ROWS, BOTH_WIDE)", UNORDERED },
    { "blocks: an inverse before it is read",  &blocks, "SYNC();\nif (LANE < CHUNK)\nspot_put", "if (LANE < CHUNK)\nspot_put",
                                               UNORDERED },
    { "blocks: rows that decay while they are read", &blocks_2, "SYNC();\nslices_decay", "slices_decay", UNORDERED },
    { "blocks: a segment that keeps nothing",  &blocks_s, "segment_decay[r] *= across;", "segment_decay[r] = 0;", NULL },
    { "list: no barrier ahead of a block",     &listed, "copies_end();\nengine_sync_all();\nif (L2NORM",
                                               "copies_end();\nif (L2NORM", UNORDERED },
    { "list: nor behind one",                  &listed_1, "if (STAGES == 1) {\nengine_sync_all();", "if (STAGES == 1) {",
                                               UNORDERED },
    { "list: outputs in the place of stages",  &listed, "copies_end();\nengine_sync_all();\nsoftmax_end",
                                               "copies_end();\nsoftmax_end", UNORDERED },
    { "teams: keys that nobody waits for",     &teams, NO_BARRIER(7), UNORDERED },
    { "teams: values that nobody waits for",   &teams, NO_BARRIER(11), UNORDERED },
    { "teams: keys moved before they are read", &teams_1, "(STAGES == 2 && n > 0)", "(0)", UNORDERED },
    { "teams: the same of three slots",        &teams, "(STAGES == 3 && n > 1)", "(0)", UNORDERED },
    { "teams: values moved before they are read", &teams_1, "if (n > 0)\nteam_wait((STAGES", "if (0)\nteam_wait((STAGES", UNORDERED },
    { "teams: outputs in the place of keys",   &teams_1, "outputs_wait();", ";", UNORDERED },
    { "product: a slice that nobody waits for", &product, NO_BARRIER(6), UNORDERED },
    { "product: nor the other team",           &product, NO_BARRIER(9), UNORDERED },
    { "product: slices moved before they are read", &product, "if (n >= STAGES)\nteam_wait", "if (n < 0)\nteam_wait", UNORDERED },
    { "product: a slice early",                &product_t, "n % STAGES, COMPUTING_LANES + MOVING_LANES);\nslice_copy", "n % STAGES, COMPUTING_LANES);\nslice_copy", "as one of" },
    { "product: rows of D in the place of slices", &product, "slices_end();\nengine_unrolled", "engine_unrolled", UNORDERED },
    { "list: sums that are not lowered",       &listed_m, "w[s].total *= kept;", "", NULL },
    { "written: u of a tile before it is there", &written, "SYNC();\nif (!ENGINE_ALONE", "if (!ENGINE_ALONE", UNORDERED },
    { "written: inverses before their numbers", &written, "SYNC();\ninverses_make", "inverses_make", UNORDERED },
    { "written: inverses before they are made", &written, "SYNC();\ninverse = ", "inverse = ", UNORDERED },
    { "written: a tile's own before it is there", &written_8, "engine_sync_own();\nif (!ENGINE_ALONE || tile == group_tile)",
                                               "if (!ENGINE_ALONE || tile == group_tile)", UNORDERED },
    { "written: no barrier ahead of a block",  &written, "copies_end();\nengine_sync_all();\nif (L2NORM",
                                               "copies_end();\nif (L2NORM", UNORDERED },
    { "written: what the span's own weights lack", &written, "before[c] + factor * sums[c]", "before[c] + sums[c]", NULL },
    { "written teams: keys that nobody waits for", &written_t, NO_BARRIER(7), UNORDERED },
    { "written teams: values that nobody waits for", &written_t, NO_BARRIER(11), UNORDERED },
    { "written teams: the same sums twice",    &written_t, "softmax[0].total = 0;", ";", NULL },
    { "written teams: own weights of another m", &written_l, "weights_raise(engine, softmax, score, accumulator);\n}", "}", NULL },
    { "written teams: a span's end in its own keys", &written_t, "list_down_to(list, first_row), span_last, n);\nn =",
                                               "list_down_to(list, first_row + KEYS), span_last, n);\nn =", "wait for ever" },
    { "turned: tiles that nobody waits for",   &turned, "team_written();\nengine_sync_all();", "team_written();", UNORDERED },
    { "turned: keys in the place of F",        &turned, "engine_sync_all();\ntile_send(p, TILE_OF_KEYS", "tile_send(p, TILE_OF_KEYS", UNORDERED },
    { "turned: values in the place of keys",   &turned, "engine_sync_all();\ntile_send(p, TILE_OF_OWN_VALUES", "tile_send(p, TILE_OF_OWN_VALUES",
                                               UNORDERED },
    { "turned: carried keys in the place of a block", &turned, "engine_sync_all();\nif (p->sent != from)",
                                               "if (p->sent != from)", UNORDERED },
    { "turned: the next block in the place of one", &turned_1, "tiles_arrive();\nif (STAGES > 1", "if (STAGES > 1", UNORDERED },
    { "turned: spans that are not crossed",    &turned, "index == H_TILES - 1", "index == H_TILES", NULL },
    { "turned: keys carried too early",        &turned, "team_written();\nSYNC();\ncourse_send", "team_written();\ncourse_send",
                                               UNORDERED },
    { "turned: columns before their squares",  &turned, "SYNC();\ncolumns_solve", "columns_solve", UNORDERED },
    { "turning teams: a part that nobody waits for", &turned_t, NO_BARRIER(8), UNORDERED },
    { "turning teams: the other team's",       &turned_t, NO_BARRIER(13), UNORDERED },
    { "turning teams: tiles moved before they are read", &turned_t, "if (n >= SLOTS)", "if (n < 0)", UNORDERED },
    { "turning teams: outputs in the place of tiles", &turned_t, "queue_end();\noutputs_put", "outputs_put", UNORDERED },
    { "turning teams: spans that are not crossed", &turned_t, "index == H_TILES - 1", "index == H_TILES", NULL },
    { "turning teams: rows that later tokens turn", &turned_t, "walked_mask(engine_again(m), products, list, own_row, from);",
                                               ";", NULL },
    { "turning teams: F in the place of products", &turned_t, "beta + first);\nSYNC();", "beta + first);", UNORDERED },
    { "turning teams: keys carried too early", &turned_t, "team_written();\nSYNC();\ncourse_send",
                                               "team_written();\ncourse_send", UNORDERED },
    { "turning teams: a part in the place of X", &turned_t, "SYNC();\nfor (int i = 1; i < STAGES - 1",
                                               "for (int i = 1; i < STAGES - 1", UNORDERED },
    { "plain scan: no barrier before mixing",  &lanes,  "SYNC();\nmix_values", "mix_values", UNORDERED },
};
/* clang-format on */

static int open_device(void **state)
{
    (void)state;
    threads_install(test_folder(), THREADS_ALL);
    return 0;
}

static void set_point(struct tuned *tuned, const char *point)
{
    char name[32];
    int value, used;

    for (; sscanf(point, "%31s %d%n", name, &value, &used) == 2; point += used)
        test_tuned_set(tuned, name, value);
}

static const char *solver_of(const struct row *row)
{
    static const char *const list_solvers[2][2] = {{"flash_matrix", "flash_team"}, {"delta_matrix", "delta_team"}};
    const struct rule *rule = rule_get(clattn_rule_find(row->rule));

    if (rule->erase == ERASE_POSITION)
        return row->chunk == 0 ? "path_team" : "path_matrix";
    if (rule_has_list(rule) && strcmp(row->engine, "none") == 0)
        return "flash_blocks";
    if (rule_has_list(rule))
        return list_solvers[rule->erase == ERASE_KERNEL][row->chunk == 0];
    if (strcmp(row->engine, "none") != 0)
        return "matrix_scan";
    if (strstr(row->point, "states.") != NULL)
        return "chunk_blocks";
    return row->chunk == 1 ? "recurrent" : "chunk_scan";
}

/* The row's plan, on a device of its own */
static clattn_status run(const struct row *row, struct check_tensors *tensors)
{
    struct tuned tuned = tuned_default(space_find(solver_of(row)));
    clattn_context_desc desc = {.log = test_log, .engine = row->engine};
    struct check_device device = {.context = NULL};
    char text[4096];
    clattn_plan *plan;
    clattn_status status;
    cl_int error;

    assert_status(clattn_context_create(&device.context, &desc), SUCCESS);
    assert_status(clattn_context_get(device.context, &device.cl, &device.device), SUCCESS);
    device.queue = opencl_get()->CreateCommandQueue(device.cl, device.device, 0, &error);
    set_point(&tuned, row->point);
    status = plan_create(&plan, device.context, &tensors->desc, &tuned);
    if (status == CLATTN_SUCCESS) {
        assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
        if (strstr(text, row->plan) == NULL)
            fail_msg("%s: not \"%s\":\n%s", row->rule, row->plan, text);
        status = check_run_plan(tensors, &device, plan, test_log, NULL);
        clattn_plan_destroy(plan);
    }
    check_device_close(&device);
    return status;
}

/* ---- Products ---- */

/* Numbers of a matrix: on the device, and here. */
struct side {
    void *at;
    cl_mem buffer;
};

static struct side numbers_of(const struct check_device *device, clattn_dtype dtype, int64_t count)
{
    struct side numbers = {.at = calloc((size_t)count, dtype_size(dtype))};
    cl_int error;

    assert_non_null(numbers.at);
    for (int64_t i = 0; i < count; i++)
        number_store(dtype, numbers.at, i, (double)(i * 7919 % 2003) / 1001 - 1);
    numbers.buffer = opencl_get()->CreateBuffer(device->cl, CL_MEM_COPY_HOST_PTR, (size_t)count * dtype_size(dtype),
                                                numbers.at, &error);
    assert_int_equal(error, CL_SUCCESS);
    return numbers;
}

static clattn_status multiply(const struct check_device *device, const struct row *row, const clattn_gemm_desc *desc,
                              const struct side of[3])
{
    struct tuned tuned = tuned_default(gemm_space_find("gemm_team"));
    const clattn_gemm_call call = {.a = of[0].buffer, .b = of[1].buffer, .d = of[2].buffer};
    char text[512];
    clattn_gemm_plan *plan;
    clattn_status status;

    set_point(&tuned, row->point);
    status = gemm_plan_tuned(&plan, device->context, desc, &tuned);
    if (status != CLATTN_SUCCESS)
        return threads_report()[0] != '\0' ? CLATTN_DEVICE_ERROR : status; /* by the check of numbers */
    assert_status(clattn_gemm_plan_describe(plan, text, sizeof text), SUCCESS);
    assert_non_null(strstr(text, row->plan));
    status = clattn_gemm_enqueue(plan, device->queue, &call, 0, NULL, NULL);
    if (status == CLATTN_SUCCESS &&
        opencl_get()->EnqueueReadBuffer(device->queue, of[2].buffer, CL_TRUE, 0,
                                        (size_t)(desc->m * desc->n) * dtype_size(desc->dtype), of[2].at, 0, NULL,
                                        NULL) != CL_SUCCESS)
        status = CLATTN_DEVICE_ERROR;
    clattn_gemm_plan_destroy(plan);
    return status;
}

static clattn_status run_product(const struct row *row, double *error)
{
    const struct check_case *shape = row->shape;
    const clattn_gemm_desc desc = {.dtype = row->dtype,
                                   .flags = (uint32_t)row->chunk,
                                   .m = shape->seq_len,
                                   .n = shape->value_dim,
                                   .k = shape->key_dim,
                                   .provider = "team"};
    const int64_t counts[] = {desc.m * desc.k, desc.k * desc.n, desc.m * desc.n};
    clattn_context_desc context = {.log = test_log, .engine = row->engine};
    struct check_device device = {.context = NULL};
    double *expected = malloc((size_t)counts[2] * sizeof *expected), difference = 0, size = 0;
    struct side of[3];
    struct gemm gemm;
    clattn_status status;
    cl_int code;

    assert_status(clattn_context_create(&device.context, &context), SUCCESS);
    assert_status(clattn_context_get(device.context, &device.cl, &device.device), SUCCESS);
    device.queue = opencl_get()->CreateCommandQueue(device.cl, device.device, 0, &code);
    for (int i = 0; i < 3; i++)
        of[i] = numbers_of(&device, row->dtype, counts[i]);
    threads_clear();
    status = multiply(&device, row, &desc, of);
    assert_status(gemm_read(&gemm, &desc, sizeof desc, &(struct log){test_log, NULL}), SUCCESS);
    gemm_reference(&gemm, of[0].at, of[1].at, of[2].at, expected);
    for (int64_t i = 0; i < counts[2]; i++) {
        difference += pow(number_load(row->dtype, of[2].at, i) - expected[i], 2);
        size += expected[i] * expected[i];
    }
    *error = status == CLATTN_SUCCESS ? sqrt(difference / size) : 0;
    for (int i = 0; i < 3; i++) {
        opencl_get()->ReleaseMemObject(of[i].buffer);
        free(of[i].at);
    }
    free(expected);
    check_device_close(&device);
    return status;
}

/* ---- Rows ---- */

/* Runs a row, and how far the results are off */
static clattn_status run_row(const struct row *row, double *error)
{
    struct check_tensors tensors, expected;
    clattn_plan_desc desc;
    clattn_status status;

    if (strcmp(row->rule, PRODUCT) == 0)
        return run_product(row, error);
    desc = check_case_desc(row->shape, clattn_rule_find(row->rule), row->dtype,
                           row->chunk == 1 ? CLATTN_MODE_RECURRENT : CLATTN_MODE_CHUNK);
    desc.chunk = strcmp(row->engine, "none") == 0 ? 0 : row->chunk; /* plain kernels have it of the point */
    test_make(&tensors, &desc, row->shape->gates, row->shape->cu_seqlens);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    test_log_clear();
    threads_clear();
    status = run(row, &tensors);
    *error = status == CLATTN_SUCCESS ? check_error(&tensors, &expected, NULL) : 0;
    check_free(&tensors);
    check_free(&expected);
    return status;
}

static void test_row(void **state)
{
    const struct row *row = *state;
    double error;

    if (run_row(row, &error) != CLATTN_SUCCESS) {
        print_error("%s%s", threads_report(), test_log_text);
        fail_msg("%s, %s", row->rule, row->shape->name);
    }
    if (!(error <= check_bound(row->dtype)))
        fail_msg("%s, %s: relative error %g", row->rule, row->shape->name, error);
}

static int is_found(const char *found)
{
    int is = strstr(threads_report(), found) != NULL;

    for (size_t i = 0; i < COUNT(unordered) && strcmp(found, UNORDERED) == 0; i++)
        is |= strstr(threads_report(), unordered[i]) != NULL;
    return is;
}

static void test_mistake(void **state)
{
    const struct mistake *mistake = *state;
    clattn_status status;
    double error;

    threads_edit(mistake->from, mistake->to);
    status = run_row(mistake->row, &error);
    if (threads_edited() == 0)
        fail_msg("no kernel has \"%s\"", mistake->from);
    threads_edit(NULL, NULL);
    if (mistake->found != NULL) {
        assert_status(status, DEVICE_ERROR);
        if (!is_found(mistake->found))
            fail_msg("not \"%s\":\n%s", mistake->found, threads_report());
    } else {
        assert_status(status, SUCCESS);
        assert_true(error > check_bound(mistake->row->dtype));
    }
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(rows) + COUNT(mistakes)];
    size_t count = 0;

    if (argc > 1 && strcmp(argv[1], "rows") == 0)
        for (size_t i = 0; i < COUNT(rows); i++)
            tests[count++] = (struct CMUnitTest){rows[i]->rule, test_row, NULL, NULL, (void *)(uintptr_t)rows[i]};
    if (argc > 1 && strcmp(argv[1], "mistakes") == 0)
        for (size_t i = 0; i < COUNT(mistakes); i++)
            tests[count++] =
                (struct CMUnitTest){mistakes[i].name, test_mistake, NULL, NULL, (void *)(uintptr_t)&mistakes[i]};
    if (argc > 2)
        test_filter(argv[2]);
    if (count == 0) {
        print_error("usage: test_threads rows|mistakes [PATTERN]\n");
        return 2;
    }
    return test_run_group("threads", tests, count, open_device, NULL);
}
