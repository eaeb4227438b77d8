/* run_exported.c: a language model that Python has exported, run from C.
 *
 *     python examples/export/chat.py chat.mlxfn
 *     run_exported chat.mlxfn MODEL.gguf "What is the capital of France?"
 *
 * The function in the file is tokens, place of the first, cache -> logits of what may follow, cache; its metadata
 * tells how many arrays the cache is, their shape, and how many tokens it reads at once.  Of the gguf file only
 * the table of tokens is used. */
#include "chat/must.h"
#include "chat/tokenizer.h"

/* logits, cache = function(tokens, at, cache).  state[0] is the logits, the cache the elements from 1 on. */
static void step(mlx_imported_function f, mlx_vector_array *state, const int *tokens, int n, int at)
{
    mlx_array a = mlx_array_new_data(tokens, &n, 1, MLX_INT32);
    mlx_vector_array in = mlx_vector_array_new_value(a);
    must(mlx_array_set_data(&a, &at, (int[]){ 1 }, 1, MLX_INT32));
    must(mlx_vector_array_append_value(in, a));
    for (size_t i = 1; i < mlx_vector_array_size(*state); i++) {
        must(mlx_vector_array_get(&a, *state, i));
        must(mlx_vector_array_append_value(in, a));
    }
    mlx_array_free(a);
    must(mlx_imported_function_apply(state, f, in));
    mlx_vector_array_free(in); /* now the graph alone has the old cache, and the new one takes its memory */
    must(mlx_eval(*state));
}

static int likeliest(mlx_vector_array state, mlx_stream s)
{
    int token;
    mlx_array a = mlx_array_new();
    must(mlx_vector_array_get(&a, state, 0));
    must(mlx_argmax(&a, a, false, s));
    must(mlx_array_item_int32(&token, a));
    mlx_array_free(a);
    return token;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: %s CHAT.mlxfn MODEL.gguf QUESTION", argv[0]);
    mlx_stream cpu = mlx_default_cpu_stream_new();
    mlx_imported_function f = mlx_imported_function_new(argv[1]);
    if (!f.ctx)
        return 2;
    const char *metadata;
    size_t length;
    int parts, shape[4] = { 1 }, chunk;
    must(mlx_imported_function_metadata(&metadata, &length, f));
    if (sscanf(metadata, "%d %d %d %d %d", &parts, shape + 1, shape + 2, shape + 3, &chunk) != 5)
        die("expected a function that examples/export/chat.py has written");

    mlx_io_gguf file = mlx_io_gguf_new();
    must(mlx_load_gguf(&file, argv[2], cpu));
    struct tokenizer *t = tokenizer_new(file);
    mlx_io_gguf_free(file);
    struct tokens text = { 0 };
    tokenizer_message(t, "system", SYSTEM, strlen(SYSTEM), &text);
    tokenizer_message(t, "user", argv[3], strlen(argv[3]), &text);
    tokenizer_prompt(t, &text);

    mlx_array empty = mlx_array_new();
    mlx_vector_array state = mlx_vector_array_new();
    must(mlx_zeros(&empty, shape, 4, MLX_FLOAT32, cpu));
    for (int i = 0; i < 1 + parts; i++) must(mlx_vector_array_append_value(state, empty));
    mlx_array_free(empty);

    int room = shape[2], count = (int)text.count, at = 0;
    if (count > room)
        die("the question is too long: the function has room for %d tokens", room);
    for (int n; at < count; at += n) {
        n = count < chunk ? 1 : chunk;
        at = at > count - n ? count - n : at; /* the last chunk may begin in the one before: nothing changes there */
        step(f, &state, text.at + at, n, at);
    }
    for (; at < room; at++) {
        int token = likeliest(state, cpu);
        if (token == tokenizer_end(t))
            break;
        const char *bytes = tokenizer_bytes(t, token, &length);
        fwrite(bytes, 1, length, stdout);
        fflush(stdout);
        step(f, &state, &token, 1, at);
    }
    puts("");

    free(text.at);
    mlx_vector_array_free(state);
    mlx_imported_function_free(f);
    tokenizer_free(t);
    mlx_stream_free(cpu);
    return 0;
}
