/* train_two_layer.c: a small network, trained from C.
 *
 * Two spirals wind around each other, and a network with one hidden layer learns to tell the points
 * of the one from those of the other:
 *
 *     h = tanh(x W1 + b1)        the hidden layer: 64 numbers for each point
 *     z = h W2 + b2              one number for each point; its sign says which spiral
 *
 * The program shows all that training needs: arrays, a loss function as a closure, its gradient
 * with mlx_value_and_grad, and a loop of gradient descent.
 *
 * Three rules of the C interface explain most lines:
 *
 *   1. Handles such as mlx_array are made by us (mlx_array_new) and freed by us (mlx_array_free).
 *      A result is written through the first argument, and what that handle held before is let go;
 *      so mlx_add(&x, x, y, s) is fine.
 *   2. Every function returns 0, or has printed what went wrong and left its result untouched.  We
 *      chain calls with `||`, so that the first failure ends the chain, and free everything on the
 *      one way out of each function: freeing an empty handle does nothing.
 *   3. Operations only build a graph.  The work is done when mlx_eval asks for it, or when we look
 *      at an element. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "mlx/c/mlx.h"

enum {
    PER_SPIRAL = 200, /* points on each spiral */
    POINTS = 2 * PER_SPIRAL,
    HIDDEN = 64,
    STEPS = 2000,
};
static const float LEARNING_RATE = 1;

/* The parameters, in the order in which they stand in vectors; behind them the loss function gets
 * the points and their labels. */
enum { W1, B1, W2, B2, PARAMETERS, X = PARAMETERS, LABELS, INPUTS };

/* Operations run on a stream.  One is enough here: the default one of the default device, which is a GPU where
 * there is one. */
static mlx_stream stream;

/* The points, as an array of shape (POINTS, 2), and 1 or -1 for each, of shape (POINTS, 1). */
static int make_spirals(mlx_array *points, mlx_array *labels)
{
    static float xy[POINTS][2], label[POINTS];
    for (int i = 0; i < POINTS; i++) {
        int spiral = i / PER_SPIRAL;
        float radius = 0.1f + 0.9f * (float)(i % PER_SPIRAL) / PER_SPIRAL;
        float angle = 3.14159265f * (3 * radius + (float)spiral); /* one and a half turns */
        xy[i][0] = radius * cosf(angle);
        xy[i][1] = radius * sinf(angle);
        label[i] = spiral ? -1 : 1;
    }
    /* mlx_array_set_data copies our memory; shapes are lists of ints. */
    const int points_shape[] = { POINTS, 2 }, labels_shape[] = { POINTS, 1 };
    return mlx_array_set_data(points, xy, points_shape, 2, MLX_FLOAT32) ||
           mlx_array_set_data(labels, label, labels_shape, 2, MLX_FLOAT32);
}

/* Puts a rows by columns matrix of normal random numbers with this spread behind the parameters. */
static int add_parameter(mlx_vector_array parameters, int rows, int columns, float spread)
{
    const int shape[] = { rows, columns };
    mlx_array p = mlx_array_new();
    /* mlx_array_empty in place of a key: draw from the global state, which mlx_random_seed sets. */
    int failed = mlx_random_normal(&p, shape, 2, MLX_FLOAT32, 0, spread, mlx_array_empty, stream) ||
                 mlx_vector_array_append_value(parameters, p);
    mlx_array_free(p);
    return failed;
}

static int make_parameters(mlx_vector_array parameters)
{
    return mlx_random_seed(0) || add_parameter(parameters, 2, HIDDEN, 3) || /* W1 */
           add_parameter(parameters, 1, HIDDEN, 1) ||                       /* B1 */
           add_parameter(parameters, HIDDEN, 1, 0.125f) ||                  /* W2 */
           add_parameter(parameters, 1, 1, 0);                              /* B2 */
}

/* The network: z for every point. */
static int network(mlx_array *z, const mlx_vector_array in)
{
    mlx_array a[INPUTS], h = mlx_array_new();
    int failed = 0;
    for (int i = 0; i <= X; i++) {
        a[i] = mlx_array_new();
        failed = failed || mlx_vector_array_get(&a[i], in, (size_t)i);
    }
    failed = failed || mlx_matmul(&h, a[X], a[W1], stream) || mlx_add(&h, h, a[B1], stream) ||
             mlx_tanh(&h, h, stream) || mlx_matmul(&h, h, a[W2], stream) || mlx_add(z, h, a[B2], stream);
    for (int i = 0; i <= X; i++) mlx_array_free(a[i]);
    mlx_array_free(h);
    return failed;
}

/* The function to be made small: the mean over the points of log(1 + exp(-label z)), which is large
 * where z has the wrong sign.  It has the form that mlx_closure_new_func wants: inputs in one
 * vector, results into another.  The first result must be a scalar for its gradient to be taken;
 * the second, how many points are on the right side, just comes along. */
static int loss_function(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array z = mlx_array_new(), label = mlx_array_new(), zero = mlx_array_new_float(0);
    mlx_array loss = mlx_array_new(), right = mlx_array_new();
    int failed = network(&z, in) || mlx_vector_array_get(&label, in, LABELS) ||
                 mlx_multiply(&z, z, label, stream) || /* positive on the right side */
                 mlx_negative(&loss, z, stream) || mlx_logaddexp(&loss, zero, loss, stream) ||
                 mlx_mean(&loss, loss, false, stream) || mlx_greater(&right, z, zero, stream) ||
                 mlx_mean(&right, right, false, stream) || mlx_vector_array_append_value(*res, loss) ||
                 mlx_vector_array_append_value(*res, right);
    mlx_array_free(z);
    mlx_array_free(label);
    mlx_array_free(zero);
    mlx_array_free(loss);
    mlx_array_free(right);
    return failed;
}

/* parameters = parameters - rate * gradients */
static int descend(mlx_vector_array *parameters, const mlx_vector_array gradients, const mlx_array rate)
{
    mlx_vector_array updated = mlx_vector_array_new();
    mlx_array p = mlx_array_new(), g = mlx_array_new();
    int failed = 0;
    for (size_t i = 0; i < PARAMETERS && !failed; i++)
        failed = mlx_vector_array_get(&p, *parameters, i) || mlx_vector_array_get(&g, gradients, i) ||
                 mlx_multiply(&g, g, rate, stream) || mlx_subtract(&p, p, g, stream) ||
                 mlx_vector_array_append_value(updated, p);
    failed = failed || mlx_vector_array_set(parameters, updated);
    mlx_vector_array_free(updated);
    mlx_array_free(p);
    mlx_array_free(g);
    return failed;
}

/* One number out of a vector of scalars. */
static int number(float *value, const mlx_vector_array vector, size_t i)
{
    mlx_array a = mlx_array_new();
    int failed = mlx_vector_array_get(&a, vector, i) || mlx_array_item_float32(value, a);
    mlx_array_free(a);
    return failed;
}

/* Trains, and writes the share of points that end up on the right side into `accuracy`. */
static int train(float *accuracy)
{
    mlx_array points = mlx_array_new(), labels = mlx_array_new();
    mlx_array rate = mlx_array_new_float(LEARNING_RATE);
    mlx_vector_array parameters = mlx_vector_array_new(), inputs = mlx_vector_array_new();
    mlx_vector_array values = mlx_vector_array_new(), gradients = mlx_vector_array_new();
    mlx_closure loss = mlx_closure_new_func(loss_function);
    mlx_closure_value_and_grad loss_and_gradients = mlx_closure_value_and_grad_new();

    /* The gradient is wanted for the first four inputs, the parameters, and not for the data. */
    const int wanted[PARAMETERS] = { W1, B1, W2, B2 };
    int failed = make_spirals(&points, &labels) || make_parameters(parameters) ||
                 mlx_value_and_grad(&loss_and_gradients, loss, wanted, PARAMETERS);

    for (int step = 0; step <= STEPS && !failed; step++) {
        /* A step builds the graph of loss, gradients and new parameters, then evaluates it. */
        failed = mlx_vector_array_set(&inputs, parameters) || mlx_vector_array_append_value(inputs, points) ||
                 mlx_vector_array_append_value(inputs, labels) ||
                 mlx_closure_value_and_grad_apply(&values, &gradients, loss_and_gradients, inputs) ||
                 descend(&parameters, gradients, rate) || mlx_eval(parameters);
        if (!failed && step % 200 == 0) {
            float mean_loss;
            failed = number(&mean_loss, values, 0) || number(accuracy, values, 1);
            if (!failed)
                printf("step %4d   loss %.4f   accuracy %5.1f%%\n", step, mean_loss, 100 * *accuracy);
        }
    }

    mlx_closure_value_and_grad_free(loss_and_gradients);
    mlx_closure_free(loss);
    mlx_vector_array_free(gradients);
    mlx_vector_array_free(values);
    mlx_vector_array_free(inputs);
    mlx_vector_array_free(parameters);
    mlx_array_free(rate);
    mlx_array_free(labels);
    mlx_array_free(points);
    return failed;
}

/* Exit status 0 when the spirals were learnt, 1 when not, 2 when something went wrong on the
 * way. */
int main(void)
{
    float accuracy = 0;
    mlx_device device = mlx_device_new();
    stream = mlx_stream_new();
    int failed = mlx_get_default_device(&device) || mlx_get_default_stream(&stream, device) || train(&accuracy);
    mlx_stream_free(stream);
    mlx_device_free(device);
    if (failed)
        return 2;
    puts(accuracy > 0.98f ? "The network tells the spirals apart." : "The spirals were not learnt.");
    return accuracy > 0.98f ? 0 : 1;
}
