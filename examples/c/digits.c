/* digits.c: the network that examples/python/digits.py trained, run from C.
 *
 * Reads digits-weights.safetensors and digits-test.safetensors in the folder given, classifies the
 * test images, and compares with the answers that Python gave.  Exit status 0 when all agree, 1 when
 * some do not, 2 when something went wrong on the way. */
#include <stdio.h>
#include <stdlib.h>

#include "mlx/c/mlx.h"

/* Every call of the library returns 0, or has printed to stderr what went wrong. */
static void must(int status)
{
    if (status)
        exit(2);
}

static mlx_stream stream;

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

static mlx_map_string_to_array load(const char *folder, const char *name)
{
    char file[4096];
    int length = snprintf(file, sizeof file, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof file) {
        fprintf(stderr, "digits: the name of the folder is too long\n");
        exit(2);
    }
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string metadata = mlx_map_string_to_string_new();
    must(mlx_load_safetensors(&arrays, &metadata, file, stream));
    mlx_map_string_to_string_free(metadata);
    return arrays;
}

/* An array of the map; the map's function returns 2, without a message, for a name it lacks. */
static mlx_array get(mlx_map_string_to_array map, const char *name)
{
    mlx_array a = mlx_array_new();
    if (mlx_map_string_to_array_get(&a, map, name)) {
        fprintf(stderr, "digits: the file holds no array named %s\n", name);
        exit(2);
    }
    return a;
}

/* x = relu(x) */
static void relu(mlx_array *x)
{
    mlx_array zero = mlx_array_new_float(0);
    must(mlx_maximum(x, *x, zero, stream));
    mlx_array_free(zero);
}

/* x = x @ weight.T + bias, with the arrays "layers.<i>.weight" and "layers.<i>.bias" */
static void linear(mlx_array *x, mlx_map_string_to_array weights, int i)
{
    char name[32];
    snprintf(name, sizeof name, "layers.%d.weight", i);
    mlx_array weight = get(weights, name);
    snprintf(name, sizeof name, "layers.%d.bias", i);
    mlx_array bias = get(weights, name);

    must(mlx_transpose(&weight, weight, stream));
    must(mlx_matmul(x, *x, weight, stream));
    must(mlx_add(x, *x, bias, stream));
    mlx_array_free(weight);
    mlx_array_free(bias);
}

/* How many elements of two arrays of integers are the same. */
static int agreements(mlx_array a, mlx_array b)
{
    int count = 0;
    mlx_array same = mlx_array_new();
    must(mlx_equal(&same, a, b, stream));
    must(mlx_sum(&same, same, false, stream));
    must(mlx_array_item_int32(&count, same));
    mlx_array_free(same);
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s folder-with-the-files-of-digits.py\n", argv[0]);
        return 2;
    }
    stream = default_stream();
    mlx_map_string_to_array weights = load(argv[1], "digits-weights.safetensors");
    mlx_map_string_to_array test = load(argv[1], "digits-test.safetensors");
    mlx_array labels = get(test, "labels"), answers = get(test, "answers");

    mlx_array x = get(test, "images");
    linear(&x, weights, 0);
    for (int i = 1; i < 3; i++) {
        relu(&x);
        linear(&x, weights, i);
    }
    must(mlx_argmax_axis(&x, x, -1, false, stream)); /* the most likely digit of each image */

    int count = (int)mlx_array_size(labels);
    int agree = agreements(x, answers), right = agreements(x, labels);
    printf("From C: %d of %d test digits read correctly, the same answer as Python on %d of %d.\n", right, count, agree,
           count);

    mlx_array_free(x);
    mlx_array_free(labels);
    mlx_array_free(answers);
    mlx_map_string_to_array_free(test);
    mlx_map_string_to_array_free(weights);
    mlx_stream_free(stream);
    return count > 0 && agree == count ? 0 : 1;
}
