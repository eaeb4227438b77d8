/* generate.c: the transformer that generate.py exported, run from C.
 *
 *     generate FOLDER
 *
 * Reads generate.mlxfn and generate.safetensors there, continues the prompt and compares with what Python
 * got.  Exit status 0 when tokens are the same and scores nearly, 1 when not, 2 when something went wrong. */
#include <stdio.h>
#include <stdlib.h>

#include "mlx/c/mlx.h"

enum { LAYERS = 2 };

/* Every call of the library returns 0, or has printed to stderr what went wrong. */
static void must(int status)
{
    if (status)
        exit(2);
}

static mlx_stream cpu;

static const char *in_folder(const char *folder, const char *name)
{
    static char file[4096];
    int length = snprintf(file, sizeof file, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof file) {
        fprintf(stderr, "generate: the name of the folder is too long\n");
        exit(2);
    }
    return file;
}

static mlx_array get(mlx_map_string_to_array map, const char *name)
{
    mlx_array a = mlx_array_new();
    if (mlx_map_string_to_array_get(&a, map, name)) {
        fprintf(stderr, "generate: the file holds no array named %s\n", name);
        exit(2);
    }
    return a;
}

/* scores, cache = step(tokens, place of the first, cache): the cache is the vector's elements from 1 on. */
static void step(mlx_imported_function f, mlx_vector_array *y, mlx_array tokens, int place)
{
    mlx_vector_array in = mlx_vector_array_new();
    mlx_array at = mlx_array_new_int(place);
    must(mlx_vector_array_append_value(in, tokens));
    must(mlx_vector_array_append_value(in, at));
    for (size_t i = 1; i < mlx_vector_array_size(*y); i++) {
        mlx_array a = mlx_array_new();
        must(mlx_vector_array_get(&a, *y, i));
        must(mlx_vector_array_append_value(in, a));
        mlx_array_free(a);
    }
    must(mlx_imported_function_apply(y, f, in));
    mlx_array_free(at);
    mlx_vector_array_free(in);
}

/* The likeliest token, of shape (1, 1), and as a number. */
static uint32_t likeliest(mlx_array *token, mlx_array scores)
{
    uint32_t number;
    must(mlx_argmax_axis(token, scores, -1, true, cpu));
    must(mlx_array_eval(*token));
    must(mlx_array_item_uint32(&number, *token));
    must(mlx_astype(token, *token, MLX_INT32, cpu));
    return number;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: generate FOLDER\n");
        return 2;
    }
    cpu = mlx_default_cpu_stream_new();
    mlx_imported_function f = mlx_imported_function_new(in_folder(argv[1], "generate.mlxfn"));
    if (!f.ctx)
        return 2;
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string metadata = mlx_map_string_to_string_new();
    must(mlx_load_safetensors(&arrays, &metadata, in_folder(argv[1], "generate.safetensors"), cpu));
    mlx_array prompt = get(arrays, "prompt"), tokens = get(arrays, "tokens"), want = get(arrays, "scores");
    must(mlx_array_eval(tokens));

    mlx_vector_array y = mlx_vector_array_new();
    mlx_array empty = mlx_array_new(), token = mlx_array_new(), scores = mlx_array_new();
    must(mlx_zeros(&empty, (int[]){ 1, 4, 64, 8 }, 4, MLX_FLOAT32, cpu));
    for (int i = 0; i < 1 + 2 * LAYERS; i++) /* in the place of the scores, and the cache */
        must(mlx_vector_array_append_value(y, empty));

    int wrong = 0, n = mlx_array_dim(tokens, 0), place = mlx_array_dim(prompt, 1);
    step(f, &y, prompt, 0);
    printf("tokens");
    for (int i = 0; i < n; i++) {
        must(mlx_vector_array_get(&scores, y, 0));
        uint32_t number = likeliest(&token, scores);
        printf(" %u", (unsigned)number);
        wrong += number != mlx_array_data_uint32(tokens)[i];
        if (i + 1 < n)
            step(f, &y, token, place + i);
    }
    mlx_array equal = mlx_array_new();
    bool same;
    must(mlx_allclose(&equal, scores, want, 1e-4, 1e-5, false, cpu)); /* they may be of another device */
    must(mlx_array_eval(equal));
    must(mlx_array_item_bool(&same, equal));
    printf("\n%s\n", wrong ? "other tokens than Python's" : same ? "as in Python" : "other scores than Python's");

    mlx_array all[] = { prompt, tokens, want, empty, token, scores, equal };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_array_free(all[i]);
    mlx_vector_array_free(y);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(metadata);
    mlx_imported_function_free(f);
    mlx_stream_free(cpu);
    return wrong || !same;
}
