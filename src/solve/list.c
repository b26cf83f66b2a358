/* The list of solvers, one a line. */
#include "solve/solve.h"

#define SOLVERS(X)                                                                                                     \
    X(matrix_scan)                                                                                                     \
    X(matrix_blocks)                                                                                                   \
    X(chunk_blocks)                                                                                                    \
    X(chunk_scan)                                                                                                      \
    X(recurrent)                                                                                                       \
    X(levels_scan)                                                                                                     \
    X(levels_tree)                                                                                                     \
    X(levels_pieces)                                                                                                   \
    X(levels_tokens)                                                                                                   \
    X(matrix_backward)                                                                                                 \
    X(chunk_backward)                                                                                                  \
    X(backward)                                                                                                        \
    X(short_conv)                                                                                                      \
    X(short_conv_back)                                                                                                 \
    X(rms_norm)                                                                                                        \
    X(rms_norm_back)                                                                                                   \
    X(gates)                                                                                                           \
    X(gates_back)                                                                                                      \
    X(rope)                                                                                                            \
    X(rope_back)                                                                                                       \
    X(features)                                                                                                        \
    X(features_back)                                                                                                   \
    X(channels)                                                                                                        \
    X(channels_lanes)                                                                                                  \
    X(mesa_matrix)                                                                                                     \
    X(mesa)                                                                                                            \
    X(mesa_tokens)                                                                                                     \
    X(lact)                                                                                                            \
    X(ttt_matrix)                                                                                                      \
    X(ttt)                                                                                                             \
    X(flash_team)                                                                                                      \
    X(flash_matrix)                                                                                                    \
    X(flash_matrix_blocks)                                                                                             \
    X(flash_blocks)                                                                                                    \
    X(flash)                                                                                                           \
    X(delta_team)                                                                                                      \
    X(delta_matrix)                                                                                                    \
    X(delta)                                                                                                           \
    X(decode)                                                                                                          \
    X(path_team)                                                                                                       \
    X(path_matrix)                                                                                                     \
    X(path)                                                                                                            \
    X(path_decode)

#define SOLVER_DECLARED(name) extern const struct solver solver_##name;
SOLVERS(SOLVER_DECLARED)

const struct solver *const solver_list[] = {
#define SOLVER_LISTED(name) &solver_##name,
    SOLVERS(SOLVER_LISTED) NULL};
_Static_assert(sizeof solver_list / sizeof *solver_list <= MOST_SOLVERS + 1, "MOST_SOLVERS is too small");
