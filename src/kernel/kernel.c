#include "kernel/kernel.h"

static const struct {
    const char *name;
    enum embedded_file file;
    const struct family *family;
    unsigned rules; /* that it is for: those whose state is a matrix, 0, or what the words below say */
    const role_byte *arguments;
} kernels[KERNEL_COUNT] = {
#define R(name) ROLE_##name
#define A(name) ARG_##name
#define TAKES(...) ((const role_byte[]){__VA_ARGS__, ARG_END})
#define TAKES_NONE ((const role_byte[]){ARG_END})
#define LIST(erase) (1u << ERASE_##erase) /* of a list, that erase so */
#define CHANNELS (1u << 16)               /* of channels with decays of their own */
#define PRODUCTS (1u << 17)               /* none */
#define PIECE_BIT(piece) (1u << (18 + (piece)))
#define LEARNERS (1u << 31)
    [KERNEL_PREPARE] = {"prepare", FILE_prepare, &family_plain, 0,
                        TAKES(R(q), R(k), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(u), R(cu), R(records),
                              A(seq_len), A(sequences), A(scale))},
    [KERNEL_SCAN] = {"scan", FILE_scan, &family_plain, 0,
                     TAKES(R(q), R(k), R(v), R(o), R(g), R(a_log), R(bias), R(gv), R(p), R(e), R(w), R(den), R(initial),
                           R(final), R(cu), R(slots), R(snapshots), R(records), A(seq_len), A(scale), A(states),
                           A(every))},
    [KERNEL_RECURRENT] = {"recurrent", FILE_recurrent, &family_plain, 0,
                          TAKES(R(q), R(k), R(v), R(o), R(g), R(a_log), R(bias), R(gv), R(beta), R(p), R(e), R(w), R(u),
                                R(den), R(initial), R(final), R(cu), R(slots), R(snapshots), R(segments), R(kept),
                                A(seq_len), A(scale), A(states), A(every))},
    [KERNEL_STABILIZE] = {"stabilize", FILE_stabilize, &family_plain, 0,
                          TAKES(R(f), R(i), R(decay), R(strength), R(m), R(initial), R(final), R(cu), R(slots),
                                A(seq_len), A(states))},
    [KERNEL_READ_STATE] = {"read_state", FILE_read_state, &family_plain, 0,
                           TAKES(R(q), R(o), R(den), R(final), R(cu), A(seq_len), A(sequences), A(scale))},
    [KERNEL_PREPARE_MATRIX] = {"prepare_matrix", FILE_prepare_matrix, &family_matrix, 0,
                               TAKES(R(q), R(k), R(v), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(w), R(u), R(cu),
                                     R(records), R(rows), A(seq_len), A(sequences), A(scale))},
    [KERNEL_PREPARE_FACTORS] = {"prepare_factors", FILE_prepare_factors, &family_matrix, 0,
                                TAKES(R(g), R(a_log), R(bias), R(beta), R(cu), R(records), A(seq_len), A(sequences),
                                      A(scale))},
    [KERNEL_SCAN_MATRIX] = {"scan_matrix", FILE_scan_matrix, &family_matrix, 0,
                            TAKES(R(q), R(k), R(v), R(o), R(p), R(e), R(den), R(initial), R(final), R(cu), R(slots),
                                  R(snapshots), R(records), R(rows), R(segments), R(kept), A(seq_len), A(states),
                                  A(every))},
    [KERNEL_PROBE_MATRIX] = {"probe_matrix", FILE_probe_matrix, &family_matrix, 0,
                             TAKES_NONE}, /* probe.c sets its arguments */
    [KERNEL_PROBE_TEAM] = {"probe_team", FILE_probe_team, &family_matrix, 0, TAKES_NONE},
    [KERNEL_FLASH] = {"flash", FILE_flash, &family_plain, LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                      TAKES(R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                            A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_FLASH_BLOCKS] = {"flash_blocks", FILE_flash_blocks, &family_flash_blocks, LIST(NONE),
                             TAKES(R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                                   A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_APPEND] = {"append", FILE_append, &family_plain, LIST(NONE),
                       TAKES(R(k), R(v), R(k_new), R(v_new), R(cu), R(cu_kv), R(lens), A(seq_len), A(sequences),
                             A(kv_len), A(window), A(given))},
    [KERNEL_PREPARE_BLOCKS] = {"prepare_blocks", FILE_prepare_blocks, &family_blocks, 0,
                               TAKES(R(q), R(k), R(v), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(w), R(u), R(cu),
                                     R(records), R(rows), A(seq_len), A(sequences), A(scale), A(first_row))},
    [KERNEL_STATES] = {"states", FILE_states, &family_blocks, 0,
                       TAKES(R(k), R(v), R(e), R(w), R(initial), R(final), R(cu), R(slots), R(records), R(rows),
                             R(before), R(carried), R(segments), R(kept), A(seq_len), A(states), A(first_row))},
    [KERNEL_JOIN] = {"join", FILE_join, &family_blocks, 0,
                     TAKES(R(final), R(cu), R(slots), R(carried), R(segments), R(kept), A(seq_len), A(states))},
    [KERNEL_FLASH_MATRIX] = {"flash_matrix", FILE_flash_matrix, &family_flash,
                             LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                             TAKES(R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                                   A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_FLASH_TEAM] = {"flash_team", FILE_flash_team, &family_flash, LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                           TAKES(R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), R(after),
                                 A(seq_len), A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_FLASH_SUMS] = {"flash_sums", FILE_flash_sums, &family_flash_sums,
                           LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                           TAKES(R(g), R(cu), R(cu_kv), R(lens), R(after), A(seq_len), A(sequences), A(kv_len),
                                 A(window), A(scale), A(given))},
    [KERNEL_OUTPUTS] = {"outputs", FILE_outputs, &family_blocks, 0,
                        TAKES(R(q), R(k), R(v), R(o), R(w), R(den), R(cu), R(records), R(rows), R(before), R(segments),
                              A(seq_len), A(sequences), A(scale), A(first_row))},
    [KERNEL_DECODE] = {"decode", FILE_decode, &family_decode, LIST(NONE) | LIST(POSITION),
                       TAKES(R(q), R(k), R(v), R(g), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len), A(sequences),
                             A(kv_len), A(window), A(scale), A(given), A(tail))},
    [KERNEL_JOIN_PARTS] = {"join_parts", FILE_join_parts, &family_decode, LIST(NONE) | LIST(POSITION),
                           TAKES(R(o), R(sink), R(lse), R(cu), R(parts), A(seq_len), A(sequences), A(given))},
    [KERNEL_PREPARE_PATH] = {"prepare_path", FILE_prepare_path, &family_path, LIST(POSITION),
                             TAKES(R(k), R(p), R(e), R(cu), R(cu_kv), R(lens), R(records), R(rows), A(seq_len),
                                   A(sequences), A(kv_len), A(window), A(given), A(tail))},
    [KERNEL_CARRY_PATH] = {"carry_path", FILE_carry_path, &family_path, LIST(POSITION),
                           TAKES(R(p), R(cu), R(cu_kv), R(lens), R(rows), R(segments), A(seq_len), A(sequences),
                                 A(kv_len), A(window), A(given), A(tail))},
    [KERNEL_FLASH_PATH] = {"flash_path", FILE_flash_path, &family_path, LIST(POSITION),
                           TAKES(R(q), R(k), R(v), R(o), R(g), R(p), R(sink), R(lse), R(cu), R(cu_kv), R(lens),
                                 R(records), R(rows), R(segments), A(seq_len), A(sequences), A(kv_len), A(window),
                                 A(scale), A(given), A(tail))},
    [KERNEL_WALK_PATH] = {"walk_path", FILE_walk_path, &family_decode, LIST(POSITION),
                          TAKES(R(q), R(k), R(v), R(g), R(p), R(e), R(cu), R(rows), R(parts), A(seq_len), A(sequences),
                                A(kv_len), A(window), A(scale), A(tail))},
    [KERNEL_TURN_PATH] = {"turn_path", FILE_turn_path, &family_path, LIST(POSITION),
                          TAKES(R(q), R(k), R(p), R(cu), R(cu_kv), R(lens), R(rows), R(segments), R(turned_q),
                                R(turned_k), A(seq_len), A(sequences), A(kv_len), A(window), A(given), A(tail))},
    [KERNEL_FOLD_PATH] = {"fold_path", FILE_fold_path, &family_path, LIST(POSITION),
                          TAKES(R(k), R(p), R(e), R(cu), R(cu_kv), R(lens), A(seq_len), A(sequences), A(kv_len),
                                A(window), A(given), A(tail))},
    [KERNEL_WRITE_BEFORE] = {"write_before", FILE_write_before, &family_write, LIST(KERNEL),
                             TAKES(R(k), R(p), R(written), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len), A(kv_len),
                                   A(window), A(scale), A(given), A(first_row))},
    [KERNEL_WRITE_SOLVE] = {"write_solve", FILE_write_solve, &family_write, LIST(KERNEL),
                            TAKES(R(k), R(v), R(p), R(e), R(written), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len),
                                  A(kv_len), A(window), A(scale), A(given), A(first_row))},
    /* plan/gemm.c sets their arguments */
    [KERNEL_GEMM] = {"gemm", FILE_gemm, &family_gemm_lanes, PRODUCTS, TAKES_NONE},
    [KERNEL_GEMM_SERIAL] = {"gemm_serial", FILE_gemm_serial, &family_gemm, PRODUCTS, TAKES_NONE},
    [KERNEL_GEMM_MATRIX] = {"gemm_matrix", FILE_gemm_matrix, &family_gemm_matrix, PRODUCTS, TAKES_NONE},
    [KERNEL_GEMM_TEAM] = {"gemm_team", FILE_gemm_team, &family_gemm_team, PRODUCTS, TAKES_NONE},
    [KERNEL_GEMV] = {"gemv", FILE_gemv, &family_gemm, PRODUCTS, TAKES_NONE},
    [KERNEL_CHANNELS] = {"channels", FILE_channels, &family_channels, CHANNELS,
                         TAKES(R(q), R(k), R(v), R(o), R(g), R(theta), R(dt), R(bias), R(d), R(z), R(initial), R(final),
                               R(cu), R(slots), A(seq_len), A(scale), A(states))},
    [KERNEL_CHANNELS_LANES] = {"channels_lanes", FILE_channels_lanes, &family_channels_lanes, CHANNELS,
                               TAKES(R(q), R(k), R(v), R(o), R(g), R(dt), R(bias), R(d), R(z), R(initial), R(final),
                                     R(cu), R(slots), A(seq_len), A(scale), A(states))},
    [KERNEL_WRITE_BEFORE_MATRIX] = {"write_before_matrix", FILE_write_before_matrix, &family_write_matrix, LIST(KERNEL),
                                    TAKES(R(k), R(p), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(scale),
                                          A(first_row))},
    [KERNEL_WRITE_BEFORE_TEAM] = {"write_before_team", FILE_write_before_team, &family_write_matrix, LIST(KERNEL),
                                  TAKES(R(k), R(p), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(scale),
                                        A(first_row))},
    [KERNEL_WRITE_SOLVE_MATRIX] = {"write_solve_matrix", FILE_write_solve_matrix, &family_write_matrix, LIST(KERNEL),
                                   TAKES(R(v), R(e), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(given),
                                         A(first_row))},
    [KERNEL_WRITE_SOLVE_TEAM] = {"write_solve_matrix", FILE_write_solve_matrix, &family_write_matrix, LIST(KERNEL),
                                 TAKES(R(v), R(e), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(given),
                                       A(first_row))},
    [KERNEL_PREPARE_PATH_MATRIX] = {"prepare_path_matrix", FILE_prepare_path_matrix, &family_path_matrix,
                                    LIST(POSITION),
                                    TAKES(R(k), R(p), R(e), R(cu), R(rows), A(seq_len), A(sequences), A(kv_len),
                                          A(tail))},
    [KERNEL_CARRY_PATH_MATRIX] = {"carry_path_matrix", FILE_carry_path_matrix, &family_path_matrix, LIST(POSITION),
                                  TAKES(R(k), R(cu), R(rows), R(segments), A(seq_len), A(sequences), A(kv_len))},
    [KERNEL_FLASH_PATH_MATRIX] = {"flash_path_matrix", FILE_flash_path_matrix, &family_path_matrix, LIST(POSITION),
                                  TAKES(R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(rows), R(segments),
                                        A(seq_len), A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_PREPARE_PATH_TEAM] = {"prepare_path_team", FILE_prepare_path_team, &family_path_team, LIST(POSITION),
                                  TAKES(R(k), R(p), R(e), R(cu), R(rows), A(seq_len), A(sequences), A(kv_len),
                                        A(tail))},
    [KERNEL_CARRY_PATH_TEAM] = {"carry_path_team", FILE_carry_path_team, &family_path_team, LIST(POSITION),
                                TAKES(R(cu), R(rows), R(segments), A(seq_len), A(sequences), A(kv_len))},
    [KERNEL_FLASH_PATH_TEAM] = {"flash_path_team", FILE_flash_path_team, &family_path_team, LIST(POSITION),
                                TAKES(R(q), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(rows), R(segments), R(after),
                                      A(seq_len), A(sequences), A(kv_len), A(window), A(scale), A(given))},
    [KERNEL_SHORT_CONV] = {"short_conv", FILE_short_conv, &family_piece, PIECE_BIT(PIECE_SHORT_CONV),
                           TAKES(R(v), R(o), R(weights), R(shift), R(initial), R(final), R(cu), R(slots), A(seq_len),
                                 A(sequences), A(states))},
    [KERNEL_RMS_NORM] = {"rms_norm", FILE_rms_norm, &family_piece, PIECE_BIT(PIECE_RMS_NORM),
                         TAKES(R(v), R(o), R(u), R(d), R(z), R(weights), R(cu), A(seq_len), A(sequences))},
    [KERNEL_GATES] = {"gates", FILE_gates, &family_piece, PIECE_BIT(PIECE_GATES),
                      TAKES(R(v), R(o), R(bias), R(a_log), R(cu), A(seq_len), A(sequences), A(scale))},
    [KERNEL_ROPE] = {"rope", FILE_rope, &family_piece, PIECE_BIT(PIECE_ROPE),
                     TAKES(R(v), R(o), R(position), R(cu), A(seq_len), A(sequences))},
    [KERNEL_FEATURES] = {"features", FILE_features, &family_piece, PIECE_BIT(PIECE_FEATURES),
                         TAKES(R(v), R(o), R(omega), R(cu), A(seq_len), A(sequences))},
    [KERNEL_LACT_OPEN] = {"lact_open", FILE_lact_open, &family_lact, LEARNERS,
                          TAKES(R(w0), R(w1), R(w2), R(fast), R(factors), R(sums), R(norms), R(moment))},
    [KERNEL_LACT_MIX] = {"lact_mix", FILE_lact_mix, &family_lact, LEARNERS,
                         TAKES(R(hidden), R(mixed), A(sequences), A(stretch_rows))},
    [KERNEL_LACT_SLOPE] = {"lact_slope", FILE_lact_slope, &family_lact, LEARNERS,
                           TAKES(R(hidden), R(mixed), R(lr0), R(lr1), R(lr2), A(sequences), A(first_row),
                                 A(stretch_rows))},
    [KERNEL_LACT_MOMENT] = {"lact_moment", FILE_lact_moment, &family_lact, LEARNERS,
                            TAKES(R(step), R(moment), R(squares), R(momentum), A(first_row), A(stretch_rows))},
    [KERNEL_LACT_UNIT] = {"lact_unit", FILE_lact_unit, &family_lact, LEARNERS, TAKES(R(step), R(squares), R(unit))},
    [KERNEL_LACT_STEP] = {"lact_step", FILE_lact_step, &family_lact, LEARNERS,
                          TAKES(R(step), R(made), R(moment), R(momentum), R(fast), R(factors), R(sums), R(norms),
                                A(first_row), A(stretch_rows))},
    [KERNEL_LACT_CLOSE] = {"lact_close", FILE_lact_close, &family_lact, LEARNERS,
                           TAKES(R(fast), R(final_w0), R(final_w1), R(final_w2))},
#undef R
#undef A
#undef TAKES
#undef LIST
};

const role_byte *kernel_arguments(enum kernel_id id)
{
    return kernels[id].arguments;
}

const char *kernel_name(enum kernel_id id)
{
    return kernels[id].name;
}

enum embedded_file kernel_file(enum kernel_id id)
{
    return kernels[id].file;
}

int kernel_takes(enum kernel_id id, const struct rule *rule)
{
    unsigned rules = kernels[id].rules;

    if (rule->op == OP_PIECE)
        return rules == PIECE_BIT(rule->piece);
    if (rule->op == OP_LEARNER)
        return rules == LEARNERS;
    if (rule_has_list(rule))
        return (int)(rules >> rule->erase & 1u);
    return rules == (rule_has_chunks(rule) ? 0 : CHANNELS);
}

const struct family *kernel_family(enum kernel_id id)
{
    return kernels[id].family;
}

struct layout kernel_layout(const struct variant *variant)
{
    return layout_of(variant, kernels[variant->kernel].family->lay_out);
}
