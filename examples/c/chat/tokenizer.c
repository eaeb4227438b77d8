/* tokenizer.c: byte-pair tokens as GPT-2 has them, from the metadata of a gguf file.
 *
 * A text is cut into pieces (a word with the space in front of it, a digit, a run of signs).  The bytes of a
 * piece become tokens of one letter, out of an alphabet of 256, and neighbours are merged, the pair that the
 * table has first first, until no pair of the piece is in the table (Sennrich, Haddow and Birch, 2016; Radford
 * et al., 2019). */
#include "tokenizer.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "characters.h"
#include "must.h"

enum { CONTROL = 3 }; /* among the types of tokens in a gguf file */

struct merge {
    int left, right, result;
};

struct tokenizer {
    mlx_vector_string tokens; /* as the file has them, in letters */
    int count, merge_count, letter[256], start, end;
    struct merge *merges;   /* in the order of the table */
    int *by_text, *by_pair; /* hash tables of tokens and of merges; -1: free */
    size_t text_mask, pair_mask;
    char *bytes;      /* what the tokens stand for, one after the other */
    size_t *bytes_at; /* where in `bytes` each begins, and after the last the end */
};

void tokens_add(struct tokens *tokens, int token)
{
    if (tokens->count == tokens->room) {
        tokens->room = 2 * tokens->room + 64;
        tokens->at = grow(tokens->at, tokens->room * sizeof *tokens->at);
    }
    tokens->at[tokens->count++] = token;
}

/* The tables */

static int *table_new(size_t *mask, size_t count)
{
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    int *table = grow(NULL, size * sizeof *table);
    memset(table, -1, size * sizeof *table);
    *mask = size - 1;
    return table;
}

static const char *text_of(const struct tokenizer *t, int token)
{
    char *text;
    must(mlx_vector_string_get(&text, t->tokens, token));
    return text;
}

/* Where in the table the token of this text is, or would go. */
static int *text_slot(const struct tokenizer *t, const char *text, size_t length)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    for (size_t i = h & t->text_mask;; i = (i + 1) & t->text_mask) {
        if (t->by_text[i] < 0)
            return t->by_text + i;
        const char *other = text_of(t, t->by_text[i]);
        if (!strncmp(other, text, length) && !other[length])
            return t->by_text + i;
    }
}

static int token_of(const struct tokenizer *t, const char *text) { return *text_slot(t, text, strlen(text)); }

/* Where in the table the merge of two tokens is, or would go. */
static int *pair_slot(const struct tokenizer *t, int left, int right)
{
    uint64_t h = ((uint64_t)left << 32 | (unsigned)right) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
    for (size_t i = (h >> 32) & t->pair_mask;; i = (i + 1) & t->pair_mask) {
        const struct merge *m = t->merges + t->by_pair[i];
        if (t->by_pair[i] < 0 || (m->left == left && m->right == right))
            return t->by_pair + i;
    }
}

/* Reading the file */

/* The letters for the 256 bytes: the byte's own character where that can be seen, for the others, in order,
 * the characters from 256 on. */
static void alphabet(int letter[256])
{
    for (int b = 0, others = 256; b < 256; b++) letter[b] = (b > 32 && b < 127) || (b > 160 && b != 173) ? b : others++;
}

/* The bytes of a token in letters of the alphabet; a text with any other character stands for itself. */
static size_t bytes_of(const unsigned char *text, const int byte_of[512], char *bytes)
{
    size_t n = 0;
    for (const unsigned char *p = text; *p; p++) {
        int letter = *p;
        if (*p >= 0x80) {
            bool two = *p >= 0xC2 && *p < 0xC8 && (p[1] & 0xC0) == 0x80;
            letter = two ? (*p & 31) << 6 | (p[1] & 63) : 0;
            p += two;
        }
        if (byte_of[letter] < 0) { /* as that of 0 is */
            n = strlen((const char *)text);
            memcpy(bytes, text, n);
            return n;
        }
        bytes[n++] = (char)byte_of[letter];
    }
    return n;
}

static void read_tokens(struct tokenizer *t, mlx_io_gguf file)
{
    mlx_array types = mlx_array_new();
    must(mlx_io_gguf_get_metadata_vector_string(&t->tokens, file, "tokenizer.ggml.tokens"));
    must(mlx_io_gguf_get_metadata_array(&types, file, "tokenizer.ggml.token_type"));
    t->count = (int)mlx_vector_string_size(t->tokens);
    if (mlx_array_dtype(types) != MLX_INT32 || mlx_array_size(types) != (size_t)t->count)
        die("expected one number of type int32 for each of the %d tokens as their types", t->count);
    const int32_t *type = mlx_array_data_int32(types);

    int letter[256], byte_of[512];
    alphabet(letter);
    memset(byte_of, -1, sizeof byte_of);
    for (int b = 0; b < 256; b++) byte_of[letter[b]] = b;

    size_t all = 0, n = 0;
    for (int i = 0; i < t->count; i++) all += strlen(text_of(t, i));
    t->bytes = grow(NULL, all);
    t->bytes_at = grow(NULL, (t->count + 1) * sizeof *t->bytes_at);
    t->by_text = table_new(&t->text_mask, t->count);
    for (int i = 0; i < t->count; i++) {
        const char *text = text_of(t, i);
        *text_slot(t, text, strlen(text)) = i;
        t->bytes_at[i] = n;
        if (type[i] != CONTROL)
            n += bytes_of((const unsigned char *)text, byte_of, t->bytes + n);
    }
    t->bytes_at[t->count] = n;
    for (int b = 0; b < 256; b++) {
        int c = letter[b];
        t->letter[b] = token_of(t, c < 0x80 ? (char[]){ c, 0 } : (char[]){ 0xC0 | c >> 6, 0x80 | (c & 63), 0 });
    }
    mlx_array_free(types);
}

static void read_merges(struct tokenizer *t, mlx_io_gguf file)
{
    mlx_vector_string merges = mlx_vector_string_new();
    must(mlx_io_gguf_get_metadata_vector_string(&merges, file, "tokenizer.ggml.merges"));
    t->merge_count = (int)mlx_vector_string_size(merges);
    t->merges = grow(NULL, t->merge_count * sizeof *t->merges);
    t->by_pair = table_new(&t->pair_mask, t->merge_count);
    for (int i = 0; i < t->merge_count; i++) {
        char *text, joined[1024];
        must(mlx_vector_string_get(&text, merges, i));
        size_t length = strlen(text), left = strcspn(text, " ");
        struct merge m = { -1, -1, -1 };
        if (left < length && length < sizeof joined) {
            snprintf(joined, sizeof joined, "%.*s%s", (int)left, text, text + left + 1);
            m = (struct merge){ *text_slot(t, text, left), token_of(t, text + left + 1), token_of(t, joined) };
        }
        if (m.left < 0 || m.right < 0 || m.result < 0)
            die("expected tokens to merge, and the two as one token, got the merge \"%s\"", text);
        t->merges[i] = m;
        *pair_slot(t, m.left, m.right) = i;
    }
    mlx_vector_string_free(merges);
}

struct tokenizer *tokenizer_new(mlx_io_gguf file)
{
    if (!is(file, "tokenizer.ggml.model", "gpt2") || !is(file, "tokenizer.ggml.pre", "smollm"))
        die("expected byte pairs of the kind 'smollm' of the model 'gpt2' in the gguf file");
    struct tokenizer *t = grow(NULL, sizeof *t);
    t->tokens = mlx_vector_string_new();
    read_tokens(t, file);
    read_merges(t, file);
    t->start = token_of(t, "<|im_start|>");
    t->end = token_of(t, "<|im_end|>");
    if (t->start < 0 || t->end < 0 || t->end != number(file, "tokenizer.ggml.eos_token_id"))
        die("expected the tokens <|im_start|> and <|im_end|>, and the latter to end an answer");
    return t;
}

void tokenizer_free(struct tokenizer *t)
{
    mlx_vector_string_free(t->tokens);
    free(t->merges);
    free(t->by_text);
    free(t->by_pair);
    free(t->bytes);
    free(t->bytes_at);
    free(t);
}

/* Characters and pieces */

static bool among(const uint32_t ranges[][2], size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low][0];
}

/* What a character is where pieces are cut: L letter, N number, s space, _ and ' themselves, o anything else. */
static char kind_of(uint32_t c)
{
    if (c == ' ' || c == '\'')
        return c == ' ' ? '_' : '\'';
    if ((c >= 9 && c <= 13) || (c >= 28 && c <= 31) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
        (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000)
        return 's';
    return among(letters, sizeof letters / sizeof *letters, c)   ? 'L'
           : among(numbers, sizeof numbers / sizeof *numbers, c) ? 'N'
                                                                 : 'o';
}

/* The length of the character at s; or, with *code U+FFFD, of as much as could be the beginning of one. */
static size_t read_character(const unsigned char *s, const unsigned char *end, uint32_t *code)
{
    unsigned first = *s, low = 0x80, high = 0xBF; /* and what the second byte may be */
    size_t more = first < 0xC2 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 0;
    *code = more ? first & (0x3F >> more) : first < 0x80 ? first : 0xFFFD;
    if (first == 0xE0 || first == 0xF0)
        low = first == 0xE0 ? 0xA0 : 0x90; /* fewer bytes would do */
    if (first == 0xED || first == 0xF4)
        high = first == 0xED ? 0x9F : 0x8F; /* a surrogate, or beyond the last character */
    for (size_t n = 1; n <= more; n++, low = 0x80, high = 0xBF) {
        if (s + n >= end || s[n] < low || s[n] > high) {
            *code = 0xFFFD;
            return n;
        }
        *code = *code << 6 | (s[n] & 0x3F);
    }
    return more + 1;
}

/* A text in whole characters: the kind of each and where it begins in `bytes`, and after the last the end. */
struct text {
    char *bytes, *kinds;
    size_t *begins, count;
};

static struct text text_new(const char *s, size_t length)
{
    struct text text = { grow(NULL, 3 * length), grow(NULL, length + 1), grow(NULL, (length + 1) * sizeof(size_t)), 0 };
    const unsigned char *p = (const unsigned char *)s, *end = p + length;
    size_t n = 0;
    while (p < end) {
        uint32_t code;
        size_t read = read_character(p, end, &code);
        text.begins[text.count] = n;
        text.kinds[text.count++] = kind_of(code);
        memcpy(text.bytes + n, code == 0xFFFD ? (const void *)"\xEF\xBF\xBD" : p, code == 0xFFFD ? 3 : read);
        n += code == 0xFFFD ? 3 : read;
        p += read;
    }
    text.begins[text.count] = n;
    text.kinds[text.count] = 'N'; /* as a number does, the end ends a piece */
    return text;
}

static void text_free(struct text text)
{
    free(text.bytes);
    free(text.kinds);
    free(text.begins);
}

/* How many of the characters at `at` are an abbreviated word: 's 't 're 've 'm 'll 'd */
static size_t contraction(const struct text *text, size_t at)
{
    static const char *const all[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    size_t left = text->begins[text->count] - text->begins[at];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i]);
        if (n <= left && !memcmp(text->bytes + text->begins[at], all[i], n))
            return n;
    }
    return 0;
}

/* Where the piece ends that begins at `at`: a number alone, an abbreviated word, letters or signs with a space
 * in front, or blanks but for the one that a word after them takes. */
static size_t piece_end(const struct text *text, size_t at)
{
    const char *kinds = text->kinds;
    size_t i = at, n = contraction(text, at);
    if (n || kinds[at] == 'N')
        return at + (n ? n : 1);
    if (kinds[i] == '_' && strchr("Lo'", kinds[i + 1]))
        i++;
    const char *run = kinds[i] == 'L' ? "L" : strchr("o'", kinds[i]) ? "o'" : "s_";
    while (strchr(run, kinds[i])) i++;
    bool word_follows = *run == 's' && i < text->count && kinds[i] != 'N';
    return word_follows && i - at > 1 ? i - 1 : i;
}

/* Adds the tokens of one piece.  Bytes that have no token are left out. */
static void merge(const struct tokenizer *t, const char *piece, size_t length, struct tokens *tokens)
{
    size_t first = tokens->count;
    for (size_t i = 0; i < length; i++)
        if (t->letter[(unsigned char)piece[i]] >= 0)
            tokens_add(tokens, t->letter[(unsigned char)piece[i]]);
    int *part = tokens->at + first, n = (int)(tokens->count - first);

    int *rank = grow(NULL, n * sizeof *rank); /* of part[i] with part[i + 1]; INT_MAX: not in the table */
    for (int i = 0; i < n - 1; i++) {
        int found = *pair_slot(t, part[i], part[i + 1]);
        rank[i] = found < 0 ? INT_MAX : found;
    }
    while (n > 1) {
        int best = 0;
        for (int i = 1; i < n - 1; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == INT_MAX)
            break;
        part[best] = t->merges[rank[best]].result;
        n--;
        memmove(part + best + 1, part + best + 2, (n - best - 1) * sizeof *part);
        memmove(rank + best, rank + best + 1, (n - best - 1) * sizeof *rank);
        for (int i = best - (best > 0); i <= best && i < n - 1; i++) {
            int found = *pair_slot(t, part[i], part[i + 1]);
            rank[i] = found < 0 ? INT_MAX : found;
        }
    }
    free(rank);
    tokens->count = first + n;
}

/* What the others use */

void tokenizer_encode(const struct tokenizer *t, const char *s, size_t length, struct tokens *tokens)
{
    struct text text = text_new(s, length);
    for (size_t at = 0, end; at < text.count; at = end) {
        end = piece_end(&text, at);
        merge(t, text.bytes + text.begins[at], text.begins[end] - text.begins[at], tokens);
    }
    text_free(text);
}

const char *tokenizer_bytes(const struct tokenizer *t, int token, size_t *length)
{
    *length = t->bytes_at[token + 1] - t->bytes_at[token];
    return t->bytes + t->bytes_at[token];
}

int tokenizer_end(const struct tokenizer *t) { return t->end; }

int tokenizer_count(const struct tokenizer *t) { return t->count; }

void tokenizer_message(const struct tokenizer *t, const char *role, const char *text, size_t length,
                       struct tokens *tokens)
{
    size_t head = strlen(role) + 1;
    char *all = grow(NULL, head + length);
    memcpy(all, role, head - 1);
    all[head - 1] = '\n';
    if (length)
        memcpy(all + head, text, length);
    tokens_add(tokens, t->start);
    tokenizer_encode(t, all, head + length, tokens);
    tokens_add(tokens, t->end);
    tokenizer_encode(t, "\n", 1, tokens);
    free(all);
}

void tokenizer_prompt(const struct tokenizer *t, struct tokens *tokens)
{
    tokens_add(tokens, t->start);
    tokenizer_encode(t, "assistant\n", 10, tokens);
}
