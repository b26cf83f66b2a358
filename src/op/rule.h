/* The rule table: the parts that make up a rule. A new rule is a row in rule.c. options.def says which options it
 * takes. */
#ifndef CLATTN_SRC_RULE_H
#define CLATTN_SRC_RULE_H

#include "clattn.h"

/* D in S <- D S */
enum decay {
#define DECAY(value, ...) DECAY_##value,
#include "op/words.def"
};

/* e and p in S <- S - e (p^T S) */
enum erase {
#define ERASE(value, ...) ERASE_##value,
#include "op/words.def"
};

/* The S of p^T S: the decayed state, or the state before the decay */
enum order { DECAY_FIRST, ERASE_FIRST };

/* x in S <- S + k x^T */
enum write {
#define WRITE(value, ...) WRITE_##value,
#include "op/words.def"
};

/* How o is computed */
enum read {
#define READ(value, ...) READ_##value,
#include "op/words.def"
};

struct state_tensor;

/* A computation around a rule */
enum piece {
#define PIECE(value, ...) PIECE_##value,
#include "op/words.def"
};

/* What a row of the table is: a recurrence, described by the columns above; a piece; or a network whose weights are
 * trained by tokens. op.h has their functions. */
enum op_id { OP_MIXER, OP_PIECE, OP_LEARNER, OP_COUNT };

/* What a learner trains: w1 (silu(w0 x) o (w2 x)); W^T x; w2^T gelu(w1^T x + b1) + b2 */
enum model { MODEL_GATED, MODEL_LINEAR, MODEL_MLP };
/* What every token of a learner has: rates lr0, lr1 and lr2; eta; theta */
enum rates { RATES_LR, RATES_ETA, RATES_THETA };

/* One more than the last rule, and than the last operand. Both are numbered from 1 without gaps. */
/* One more than the number of rules */
#define RULE_ONE(NAME, value) +1
#define RULE_COUNT (1 CLATTN_RULES(RULE_ONE))
#define COUNT_OPERAND(ID, name, value, shape) +1
enum { OPERAND_IDS = 0 CLATTN_OPERANDS(COUNT_OPERAND) };
#undef COUNT_OPERAND

/* Within the library the gradient of an operand has the number OPERAND_IDS later, so that tables by operand have no gap;
 * callers know it as CLATTN_GRAD. */
#define OPERAND_COUNT (1 + 2 * (int)OPERAND_IDS)
static inline clattn_operand_id gradient_of(clattn_operand_id id)
{
    return (clattn_operand_id)((int)id + (int)OPERAND_IDS);
}
/* A caller's id as the library's, and back; NONE of a caller's that no operand has. */
static inline clattn_operand_id operand_from_public(clattn_operand_id id)
{
    const int base = (int)id > CLATTN_GRADIENTS ? (int)id - CLATTN_GRADIENTS : (int)id;

    if (base <= CLATTN_OPERAND_NONE || base > (int)OPERAND_IDS)
        return CLATTN_OPERAND_NONE;
    return base == (int)id ? id : gradient_of((clattn_operand_id)base);
}
static inline clattn_operand_id operand_to_public(clattn_operand_id id)
{
    return (int)id > (int)OPERAND_IDS ? CLATTN_GRAD((int)id - (int)OPERAND_IDS) : id;
}

#define NO_OPERAND CLATTN_OPERAND_NONE

struct rule {
    const char *name, *aliases;
    enum decay decay;
    clattn_operand_id gate; /* the operand with log-decays; NO_OPERAND if head_decay is set */
    double (*head_decay)(const clattn_plan_desc *desc, int64_t head); /* a log-decay that the rule fixes */
    enum erase erase;
    enum order order;
    enum write write;
    enum read read;
    const struct state_tensor *state; /* the tensors that it keeps from token to token: op/state.h */
    double default_scale;             /* 0 stands for 1/sqrt(key_dim) */
    const char *recurrence, *paper;
    enum op_id op;
    enum piece piece;   /* if op is OP_PIECE */
    double default_eps; /* for a rule that takes eps */
    /* if op is OP_LEARNER */
    enum model model;
    enum rates rates;
    int bias; /* something is added to W^T x */
    clattn_loss default_loss;
    clattn_readout default_readout;
};

/* NULL: there is no such rule. */
const struct rule *rule_get(clattn_rule rule);

/* The storage class of an operand, which decides its type. */
enum storage { STORE_DATA, STORE_GATE, STORE_MATRIX, STORE_STATE, STORE_INDEX, STORE_LENGTH }; /* matrices: S */

/* X(KIND, draw, low, width, channel): the numbers of an operand. The self-test draws them from `low` to `low + width`
 * (src/plan/sample.c). Channels of a row are divided by sqrt(key_dim). Those have one sign if there is a denominator,
 * to keep it away from zero. Checks draw harder numbers with the draw_… functions of src/check/make.c. */
#define NUMBERS(X)                                                                                                     \
    X(QUERY, query, -1, 2, 1)                                                                                          \
    X(KEY, key, -1, 2, 1)                                                                                              \
    X(CHANNEL, normal, -1, 2, 1)                                                                                       \
    X(LISTED, query, -2, 4, 0)                                                                                         \
    X(LOGIT, normal, -1, 2, 0)                                                                                         \
    X(VALUE, normal, -1, 2, 0)                                                                                         \
    X(BONUS, normal, -0.5, 1, 0)                                                                                       \
    X(DECAY, decay, -0.02, 0.02, 0)                                                                                    \
    X(FORGET, forget, -0.02, 0.02, 0)                                                                                  \
    X(RAW, raw, -4, 3, 0)                                                                                              \
    X(INPUT, input, -0.5, 1, 0)                                                                                        \
    X(STRENGTH, strength, 0, 1, 0)                                                                                     \
    X(STATE, state, -1, 2, 0)                                                                                          \
    X(NORMALIZER, normalizer, 0.5, 0.5, 0)                                                                             \
    X(STABILIZER, normal, -0.5, 1, 0)                                                                                  \
    X(STEP, step, 0, 0.2, 0)                                                                                           \
    X(RATE, rate, -1, 1, 0)                                                                                            \
    X(ANGLE, normal, -1, 2, 0)                                                                                         \
    X(WEIGHT, key, -2, 4, 1)                                                                                           \
    X(SPEED, speed, 0, 0.1, 0)                                                                                         \
    X(LEVEL, level, 0.5, 1, 0)                                                                                         \
    X(SHARE, share, 0, 0.9, 0)                                                                                         \
    X(RIDGE, ridge, 0.5, 1, 0)                                                                                         \
    X(GRAM, gram, 0, 1, 0)

enum numbers {
#define NUMBERS_ENUM(KIND, ...) NUMBERS_##KIND,
    NUMBERS(NUMBERS_ENUM)
#undef NUMBERS_ENUM
        NUMBERS_CUTS, /* starts of sequences */
    NUMBERS_CUTS_KV,  /* starts of the sequences' keys */
    NUMBERS_LENGTHS,  /* lengths of keys in use */
    NUMBERS_SLOTS,    /* slots of states in the pool */
    NUMBERS_POSITIONS,
    NUMBERS_COUNTS, /* tokens of the previous call that are kept */
    NUMBERS_WRITTEN /* an output */
};

/* An operand of a rule. dims is a string of letters:
 * B, T, H, K, V, N, Q = qk_heads, S = T*steps, P = N+1;
 * M = states of a pool, W = intermediate states that are returned, Z = K*V, U = V/2;
 * X = tokens of keys, E = the last of them, whose keys are not carried;
 * Y and G = kv_heads, of a list and of states, L = the smaller of G and Q;
 * O = all weights of an MLP, w1, b1, w2, b2;
 * J = R = taps, as inner and as outer dimension, A = their product with W;
 * C = the tokens that an output combines: X for a list, else S; F = rows of omega, D = hidden_dim,
 * I = levels, k = K*K. */
struct operand_row {
    clattn_operand_id id;
    const char *dims;
    enum storage storage;
    enum numbers numbers;
};

/* The operands that kernels call p and e. NO_OPERAND: the erase has none. */
const struct operand_row *erase_operands(enum erase erase);
const struct operand_row *write_operand(enum write write);
/* beta where it is the strength of a write, whose type is its own in kernels; else NO_OPERAND. */
clattn_operand_id operand_of_strength(const struct rule *rule);
/* "scalar", "key": parts of the names of words. */
const char *decay_name(enum decay decay);
const char *erase_name(enum erase erase);
/* Whether a token reads the state before its own writes. */
int read_is_before(enum read read);
/* Whether the rule's state is its list of keys and values, not a matrix. */
int rule_has_list(const struct rule *rule);
/* Whether the rule has a state for each level, which a query weighs. */
int rule_has_levels(const struct rule *rule);
/* Whether o is read by the solution of equations, and not by the query itself. */
int rule_is_solved(const struct rule *rule);
/* Whether the rule has queries and keys. A mixer without them has a state of one channel, and both are 1. */
int rule_has_keys(const struct rule *rule);
/* Whether key_dim means anything for the rule. If not, it is 1. */
int rule_asks_key_dim(const struct rule *rule);
/* Whether the rule can be computed in chunks, as matrix products. It cannot if each element of the state has its own
 * decay. */
int rule_has_chunks(const struct rule *rule);
/* Whether it can be computed token by token. */
int rule_has_tokens(const struct rule *rule);
/* Whether all value columns share an attention matrix: none has gates of its own. */
int rule_has_matrix(const struct rule *rule);
/* The number of products of a row with the state for each token, including that of the write. */
int erase_work(enum erase erase);

/* Fills rows with every operand of a completed desc, inputs and outputs. Returns their number. */
int rule_operands(const clattn_plan_desc *desc, struct operand_row rows[OPERAND_COUNT]);

const char *operand_name(clattn_operand_id id);
int operand_is_output(clattn_operand_id id);
/* Whether a call may lack the operand: it is a gradient that the backward pass writes. */
int operand_is_optional(const struct operand_row *row);
/* Whether the operand is both read and written: the cache to which a call appends keys and values. */
int operand_is_updated(const clattn_plan_desc *desc, clattn_operand_id id);
/* Whether the operand holds the states that a call returns on its way, not all of which a short sequence has. */
int operand_is_snapshots(const struct operand_row *row);
/* Whether the operand holds integers: starts or lengths of sequences. */
int operand_is_index(clattn_operand_id id);

#endif
