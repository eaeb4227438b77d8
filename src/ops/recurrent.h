/* recurrent.h: arguments of ops/recurrent.c, for its runners. */
#ifndef MX_OPS_RECURRENT_H
#define MX_OPS_RECURRENT_H

#include <stdbool.h>

enum recurrent_kind { RECURRENT_TANH, RECURRENT_GRU, RECURRENT_LSTM };

/* How many gates of a unit there are, one group of rows of the weights each. */
static inline int recurrent_gates(unsigned kind) { return kind == RECURRENT_LSTM ? 4 : kind == RECURRENT_GRU ? 3 : 1; }

/* x (B, T, gates H), weights (gates H, H), then where there are any a bias (H) of a GRU's candidate, the first hidden
 * state (B, H) and the first cell (B, H), of a LSTM: all of one type.  Results: the hidden states (B, T, H), of a LSTM
 * the cells, and in float32 for half types x + s, (B, T, gates H), but of a GRU's candidate s + bias; a runner leaves
 * that out where nobody will look at it (result_unwanted). */
struct recurrent_args {
    unsigned kind; /* enum recurrent_kind */
    bool bias, hidden, cell;
};

/* weights (gates H, H), ct (B, T, H), slope (B, T, gates H), of a GRU keep (B, T, H), of a LSTM ct of the cells, seen
 * and keep, all (B, T, H).  Results: cotangents of the gates before their functions, (B, T, gates H); of a GRU's hidden
 * states, or of a LSTM's cells, (B, T, H). */
struct recurrent_back_args {
    unsigned kind;
};

#endif
