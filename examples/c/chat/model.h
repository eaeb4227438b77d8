/* model.h: a language model of the Llama family (Touvron et al., 2023) with the weights of a gguf file. */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>

#include "mlx/c/mlx.h"

struct model;

/* The model of so many tokens.  Weights that the file has packed into a few bits stay packed. */
struct model *model_new(mlx_io_gguf file, int tokens);
void model_free(struct model *m);

/* A text that grows, with its cache: each token goes through the model once. */
struct session;

struct session *session_new(const struct model *m);
void session_free(struct session *s);

/* Goes back to where the session's text differs from these tokens, of which it leaves at least one to read;
 * returns how many it has. */
size_t session_back(struct session *s, const int *tokens, size_t count);

void session_read(struct session *s, const int *tokens, size_t count);

/* A token that may follow the text: the likeliest at temperature 0, else a random one of the likeliest that have
 * top_p together. */
int session_next(const struct session *s, double temperature, double top_p);

#endif
