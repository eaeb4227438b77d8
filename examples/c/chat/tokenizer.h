/* tokenizer.h: text to tokens, the numbers that a language model reads and writes, and back.
 *
 * Byte pairs as GPT-2 has them, with the table in the metadata of a gguf file. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stddef.h>

#include "mlx/c/mlx.h"

/* What SmolLM2 is told first where nobody says anything else. */
#define SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

struct tokenizer;

/* A list of tokens that grows; { 0 } is empty.  Its owner frees `at`. */
struct tokens {
    int *at;
    size_t count, room;
};

void tokens_add(struct tokens *tokens, int token);

struct tokenizer *tokenizer_new(mlx_io_gguf file);
void tokenizer_free(struct tokenizer *t);

/* Adds the tokens of a text.  What is not UTF-8 in it counts as U+FFFD; what looks like a control token is
 * text like any other. */
void tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, struct tokens *tokens);

/* The bytes that a token stands for, none for a control token; characters may be cut among tokens. */
const char *tokenizer_bytes(const struct tokenizer *t, int token, size_t *length);

/* Adds one message of a conversation; and what the assistant's answer begins with. */
void tokenizer_message(const struct tokenizer *t, const char *role, const char *text, size_t length,
                       struct tokens *tokens);
void tokenizer_prompt(const struct tokenizer *t, struct tokens *tokens);

/* The token that ends an answer, and how many tokens there are. */
int tokenizer_end(const struct tokenizer *t);
int tokenizer_count(const struct tokenizer *t);

#endif
