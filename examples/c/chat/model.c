/* model.c: the model as a graph of operations, and the cache of keys and values.
 *
 * Handles are written over and over, as in linear(&x, x, ...): the library lets go of what they held before.  What
 * a step makes is freed together, when its scope ends.
 * A step of one token is compiled: traced once for each size of the cache, and called again as a graph. */
#include "model.h"

#include <math.h>

#include "must.h"

enum { PAGE = 128 }; /* tokens by which a cache grows */

struct matrix {
    mlx_array weight, scales, biases; /* packed; or a weight alone */
};

struct layer {
    mlx_array attn_norm, ffn_norm;
    struct matrix q, k, v, output, gate, up, down;
};

struct model {
    mlx_stream stream;
    int dims, layer_count, heads, shared, size, context;
    float base, eps;
    struct layer *layers;
    mlx_array output_norm;
    struct matrix embedding;
};

struct session {
    const struct model *model;
    mlx_closure step, compiled;
    mlx_vector_array state; /* logits; keys and values of each layer: (1, heads, room, size) */
    int *text, length, room;
};

/* Reading the file */

static bool has(mlx_io_gguf file, const char *name)
{
    bool found = false;
    mlx_vector_string names = mlx_vector_string_new();
    must(mlx_io_gguf_get_keys(&names, file));
    for (size_t i = 0; i < mlx_vector_string_size(names) && !found; i++) {
        char *other;
        must(mlx_vector_string_get(&other, names, i));
        found = !strcmp(name, other);
    }
    mlx_vector_string_free(names);
    return found;
}

/* The array "<part>.<of>", in layer i "blk.<i>.<part>.<of>"; an empty handle where there is none. */
static mlx_array array(mlx_io_gguf file, int i, const char *part, const char *of)
{
    char name[64];
    mlx_array a = mlx_array_new();
    if (i < 0)
        snprintf(name, sizeof name, "%s.%s", part, of);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", i, part, of);
    if (has(file, name))
        must(mlx_io_gguf_get_array(&a, file, name));
    else if (!strcmp(of, "weight"))
        die("the file has no array %s", name);
    return a;
}

static struct matrix matrix(mlx_io_gguf file, int i, const char *part)
{
    return (struct matrix){ array(file, i, part, "weight"), array(file, i, part, "scales"),
                            array(file, i, part, "biases") };
}

static void matrix_free(struct matrix m)
{
    mlx_array_free(m.weight);
    mlx_array_free(m.scales);
    mlx_array_free(m.biases);
}

/* A number of the metadata that is a size. */
static int size(mlx_io_gguf file, const char *key)
{
    double n = number(file, key);
    if (!(n >= 1 && n <= 1 << 24 && n == floor(n)))
        die("expected a size as %s, got %g", key, n);
    return (int)n;
}

/* The default stream of the default device: of a GPU where there is one. */
static mlx_stream default_stream(void)
{
    mlx_device device = mlx_device_new();
    mlx_stream s = mlx_stream_new();
    must(mlx_get_default_device(&device));
    must(mlx_get_default_stream(&s, device));
    mlx_device_free(device);
    return s;
}

struct model *model_new(mlx_io_gguf file, int tokens)
{
    if (!is(file, "general.architecture", "llama") || has(file, "output.weight"))
        die("expected a model of the kind 'llama' whose embedding is its last layer too");
    struct model *m = grow(NULL, sizeof *m);
    *m = (struct model){
        .stream = default_stream(),
        .dims = size(file, "llama.embedding_length"),
        .layer_count = size(file, "llama.block_count"),
        .heads = size(file, "llama.attention.head_count"),
        .shared = size(file, "llama.attention.head_count_kv"),
        .context = size(file, "llama.context_length"),
        .base = (float)number(file, "llama.rope.freq_base"),
        .eps = (float)number(file, "llama.attention.layer_norm_rms_epsilon"),
        .output_norm = array(file, -1, "output_norm", "weight"),
        .embedding = matrix(file, -1, "token_embd"),
    };
    if (m->dims % m->heads || m->heads % m->shared)
        die("expected heads that divide %d, got %d of queries and %d of keys", m->dims, m->heads, m->shared);
    if (mlx_array_dim(m->embedding.weight, 0) != tokens)
        die("expected a vector for each of %d tokens, got %d", tokens, mlx_array_dim(m->embedding.weight, 0));
    m->size = m->dims / m->heads;
    m->layers = grow(NULL, m->layer_count * sizeof *m->layers);
    for (int i = 0; i < m->layer_count; i++)
        m->layers[i] = (struct layer){
            .attn_norm = array(file, i, "attn_norm", "weight"),
            .ffn_norm = array(file, i, "ffn_norm", "weight"),
            .q = matrix(file, i, "attn_q"),
            .k = matrix(file, i, "attn_k"),
            .v = matrix(file, i, "attn_v"),
            .output = matrix(file, i, "attn_output"),
            .gate = matrix(file, i, "ffn_gate"),
            .up = matrix(file, i, "ffn_up"),
            .down = matrix(file, i, "ffn_down"),
        };
    return m;
}

void model_free(struct model *m)
{
    for (int i = 0; i < m->layer_count; i++) {
        struct layer *l = m->layers + i;
        struct matrix all[] = { l->q, l->k, l->v, l->output, l->gate, l->up, l->down };
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) matrix_free(all[j]);
        mlx_array_free(l->attn_norm);
        mlx_array_free(l->ffn_norm);
    }
    free(m->layers);
    matrix_free(m->embedding);
    mlx_array_free(m->output_norm);
    mlx_stream_free(m->stream);
    free(m);
}

/* The graph */

static const mlx_optional_int group = { 32, true }; /* numbers that share a scale, in gguf files */

static mlx_optional_int bits(struct matrix w)
{
    int groups = mlx_array_dim(w.scales, -1);
    return (mlx_optional_int){ groups ? mlx_array_dim(w.weight, -1) / groups : 0, true };
}

/* y = x @ w.T */
static void linear(mlx_array *y, mlx_array x, struct matrix w, mlx_stream s)
{
    if (w.scales.ctx) {
        must(mlx_quantized_matmul(y, x, w.weight, w.scales, w.biases, true, group, bits(w), "affine", s));
        return;
    }
    mlx_array t = mlx_array_new();
    must(mlx_transpose(&t, w.weight, s));
    must(mlx_matmul(y, x, t, s));
}

/* The vectors of tokens in float32, whatever the scales of packed ones are in: (1, tokens, dims). */
static void embed(mlx_array *x, mlx_array tokens, const struct model *m)
{
    struct matrix e = m->embedding;
    must(mlx_take_axis(x, e.weight, tokens, 0, m->stream));
    if (e.scales.ctx) {
        mlx_array scales = mlx_array_new(), biases = mlx_array_new();
        must(mlx_take_axis(&scales, e.scales, tokens, 0, m->stream));
        must(mlx_take_axis(&biases, e.biases, tokens, 0, m->stream));
        must(mlx_dequantize(x, *x, scales, biases, group, bits(e), "affine", mlx_array_empty,
                            (mlx_optional_dtype){ MLX_FLOAT32, true }, m->stream));
    }
    must(mlx_astype(x, *x, MLX_FLOAT32, m->stream));
    must(mlx_expand_dims(x, *x, 0, m->stream));
}

/* y = x @ w.T as (1, heads, tokens, size) */
static void project(mlx_array *y, mlx_array x, struct matrix w, int heads, const struct model *m)
{
    linear(y, x, w, m->stream);
    must(mlx_reshape(y, *y, (int[]){ 1, mlx_array_dim(x, 1), heads, m->size }, 4, m->stream));
    must(mlx_swapaxes(y, *y, 1, 2, m->stream));
}

/* Positions are rotations; gguf files have the rows of q and k in the order for rotating neighbours. */
static void rotate(mlx_array *x, mlx_array at, const struct model *m)
{
    mlx_optional_float base = { m->base, true };
    must(mlx_fast_rope_dynamic(x, *x, m->size, true, base, 1, at, mlx_array_empty, m->stream));
}

/* x += attention over the text so far, of which keys and values go to the cache.  Heads of queries share heads
 * of keys and values (Ainslie et al., 2023). */
static void attend(mlx_array *x, const struct layer *l, mlx_array at, mlx_array mask, mlx_array cache[2],
                   const struct model *m)
{
    const int axis = 2;
    float scale = (float)pow(m->size, -0.5);
    mlx_array y = mlx_array_new(), q = mlx_array_new(), k = mlx_array_new(), v = mlx_array_new();
    must(mlx_fast_rms_norm(&y, *x, l->attn_norm, m->eps, m->stream));
    project(&q, y, l->q, m->heads, m);
    project(&k, y, l->k, m->shared, m);
    project(&v, y, l->v, m->shared, m);
    rotate(&q, at, m);
    rotate(&k, at, m);
    must(mlx_slice_update_dynamic(&cache[0], cache[0], k, at, &axis, 1, m->stream));
    must(mlx_slice_update_dynamic(&cache[1], cache[1], v, at, &axis, 1, m->stream));
    must(mlx_fast_scaled_dot_product_attention(&y, q, cache[0], cache[1], scale, "array", mask, mlx_array_empty,
                                               m->stream));
    must(mlx_swapaxes(&y, y, 1, 2, m->stream));
    must(mlx_flatten(&y, y, 2, -1, m->stream));
    linear(&y, y, l->output, m->stream);
    must(mlx_add(x, *x, y, m->stream));
}

/* x += a feed-forward layer with a gate: down(silu(gate) * up) */
static void feed_forward(mlx_array *x, const struct layer *l, const struct model *m)
{
    mlx_array y = mlx_array_new(), gate = mlx_array_new(), open = mlx_array_new();
    must(mlx_fast_rms_norm(&y, *x, l->ffn_norm, m->eps, m->stream));
    linear(&gate, y, l->gate, m->stream);
    linear(&y, y, l->up, m->stream);
    must(mlx_sigmoid(&open, gate, m->stream));
    must(mlx_multiply(&gate, gate, open, m->stream));
    must(mlx_multiply(&y, gate, y, m->stream));
    linear(&y, y, l->down, m->stream);
    must(mlx_add(x, *x, y, m->stream));
}

/* Which of `room` places each of n tokens sees, the first of which is token `at` of the text: (n, room). */
static void sees(mlx_array *mask, int n, int room, mlx_array at, const struct model *m)
{
    mlx_array place = mlx_array_new();
    must(mlx_arange(&place, 0, n, 1, MLX_INT32, m->stream));
    must(mlx_add(&place, at, place, m->stream));
    must(mlx_expand_dims(&place, place, 1, m->stream));
    must(mlx_arange(mask, 0, room, 1, MLX_INT32, m->stream));
    must(mlx_less_equal(mask, *mask, place, m->stream));
}

/* tokens, place of the first, cache -> logits of what may follow the last, cache with all of them */
static int step(mlx_vector_array *outputs, const mlx_vector_array inputs, void *model)
{
    must(mlx_scope_begin());
    const struct model *m = model;
    mlx_array tokens = mlx_array_new(), at = mlx_array_new(), x = mlx_array_new(), mask = mlx_array_new();
    mlx_array *cache = grow(NULL, 2 * m->layer_count * sizeof *cache);
    must(mlx_vector_array_get(&tokens, inputs, 0));
    must(mlx_vector_array_get(&at, inputs, 1));
    for (int i = 0; i < 2 * m->layer_count; i++) {
        cache[i] = mlx_array_new();
        must(mlx_vector_array_get(&cache[i], inputs, i + 2));
    }

    int n = mlx_array_dim(tokens, 0);
    embed(&x, tokens, m);
    sees(&mask, n, mlx_array_dim(cache[0], 2), at, m);
    for (int i = 0; i < m->layer_count; i++) {
        attend(&x, m->layers + i, at, mask, cache + 2 * i, m);
        feed_forward(&x, m->layers + i, m);
    }
    must(mlx_slice(&x, x, (int[]){ 0, n - 1, 0 }, 3, (int[]){ 1, n, m->dims }, 3, (int[]){ 1, 1, 1 }, 3, m->stream));
    must(mlx_flatten(&x, x, 0, -1, m->stream));
    must(mlx_fast_rms_norm(&x, x, m->output_norm, m->eps, m->stream));
    linear(&x, x, m->embedding, m->stream);

    must(mlx_vector_array_append_value(*outputs, x));
    must(mlx_vector_array_append_data(*outputs, cache, 2 * m->layer_count));
    free(cache);
    return mlx_scope_end();
}

/* Sessions */

struct session *session_new(const struct model *m)
{
    struct session *s = grow(NULL, sizeof *s);
    *s = (struct session){ .model = m, .compiled = mlx_closure_new(), .state = mlx_vector_array_new() };
    s->step = mlx_closure_new_func_payload(step, (void *)m, NULL);
    must(mlx_compile(&s->compiled, s->step, false));
    mlx_array empty = mlx_array_new();
    must(mlx_zeros(&empty, (int[]){ 1, m->shared, 0, m->size }, 4, MLX_FLOAT32, m->stream));
    for (int i = 0; i < 1 + 2 * m->layer_count; i++) must(mlx_vector_array_append_value(s->state, empty));
    mlx_array_free(empty);
    return s;
}

void session_free(struct session *s)
{
    mlx_vector_array_free(s->state);
    mlx_closure_free(s->compiled);
    mlx_closure_free(s->step);
    free(s->text);
    free(s);
}

size_t session_back(struct session *s, const int *tokens, size_t count)
{
    size_t same = 0;
    while (same < (size_t)s->length && same + 1 < count && s->text[same] == tokens[same]) same++;
    s->length = (int)same; /* what the cache holds beyond the text is not looked at, and written over */
    return same;
}

/* The arguments of a step; the cache gets room for all of the text. */
static mlx_vector_array arguments(struct session *s, const int *tokens, int count, int at)
{
    const struct model *m = s->model;
    const int axis = 2, none = 0, pages = (s->length - s->room + PAGE - 1) / PAGE, more = pages > 0 ? pages * PAGE : 0;
    mlx_array a = mlx_array_new_data(tokens, &count, 1, MLX_INT32), zero = mlx_array_new_float(0);
    mlx_vector_array all = mlx_vector_array_new_value(a);
    must(mlx_array_set_data(&a, &at, (int[]){ 1 }, 1, MLX_INT32));
    must(mlx_vector_array_append_value(all, a));
    for (int i = 0; i < 2 * m->layer_count; i++) {
        must(mlx_vector_array_get(&a, s->state, i + 1));
        if (more)
            must(mlx_pad(&a, a, &axis, 1, &none, 1, &more, 1, zero, "constant", m->stream));
        must(mlx_vector_array_append_value(all, a));
    }
    mlx_array_free(a);
    mlx_array_free(zero);
    s->room += more;
    return all;
}

void session_read(struct session *s, const int *tokens, size_t count)
{
    if (count > (size_t)(s->model->context - s->length))
        die("the conversation is longer than the %d tokens that the model can see", s->model->context);
    int n = (int)count, at = s->length;
    s->text = grow(s->text, (at + n) * sizeof *s->text);
    memcpy(s->text + at, tokens, n * sizeof *tokens);
    s->length += n;
    mlx_vector_array inputs = arguments(s, tokens, n, at);
    must(mlx_closure_apply(&s->state, n == 1 ? s->compiled : s->step, inputs));
    mlx_vector_array_free(inputs); /* now the graph alone has the old cache, and the new one takes its memory */
    must(mlx_eval(s->state));
}

/* The index of the likeliest at temperature 0; else of one drawn from the likeliest that have top_p together. */
static void choose(mlx_array *token, mlx_array logits, double temperature, double top_p, mlx_stream s)
{
    if (temperature == 0) {
        must(mlx_argmax(token, logits, false, s));
        return;
    }
    mlx_array p = mlx_array_new(), order = mlx_array_new(), ahead = mlx_array_new(), scalar = mlx_array_new();
    must(mlx_array_set_float(&scalar, (float)temperature));
    must(mlx_divide(&p, logits, scalar, s));
    must(mlx_softmax(&p, p, false, s));
    must(mlx_negative(&order, p, s));
    must(mlx_argsort(&order, order, s));
    must(mlx_take(&p, p, order, s));
    must(mlx_cumsum(&ahead, p, 0, false, true, s));
    must(mlx_subtract(&ahead, ahead, p, s));
    must(mlx_array_set_float(&scalar, (float)top_p));
    must(mlx_less(&ahead, ahead, scalar, s));
    must(mlx_log(&p, p, s));
    must(mlx_array_set_float(&scalar, -INFINITY));
    must(mlx_where(&p, ahead, p, scalar, s));
    must(mlx_random_categorical(token, p, -1, mlx_array_empty, s));
    must(mlx_take(token, order, *token, s));
}

int session_next(const struct session *s, double temperature, double top_p)
{
    int number;
    must(mlx_scope_begin());
    mlx_array logits = mlx_array_new(), token = mlx_array_new();
    must(mlx_vector_array_get(&logits, s->state, 0));
    choose(&token, logits, temperature, top_p, s->model->stream);
    must(mlx_array_item_int32(&number, token));
    must(mlx_scope_end());
    return number;
}
