/* c_device.c: device handles, and facts about devices. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"

int capi_device(const char *func, const char *arg, mlx_device dev, struct device *d)
{
    if (!dev.ctx) {
        capi_refuse(func, "a device", arg, "an empty handle");
        return 1;
    }
    *d = *(const struct device *)dev.ctx;
    return 0;
}

int capi_device_end(const char *func, mlx_device *res, struct device d)
{
    if (!capi_need(func, "a place for the result", "dev", res))
        return capi_report();
    if (!res->ctx) {
        void *made = mx_malloc(sizeof d);
        if (!made || capi_made(HANDLE_device, made, func))
            return free(made), capi_report();
        res->ctx = made;
    }
    *(struct device *)res->ctx = d;
    return 0;
}

static int check_type(const char *op, mlx_device_type type)
{
    if (type == MLX_CPU || type == MLX_GPU)
        return 0;
    mx_fail_as(MX_TYPE, "[%s] expected MLX_CPU or MLX_GPU, got %d", op, (int)type);
    return 1;
}

mlx_device mlx_device_new(void) { return (mlx_device){ NULL }; }

mlx_device mlx_device_new_type(mlx_device_type type, int index)
{
    mlx_device made = { NULL };
    if (index < 0)
        mx_fail("[device_new_type] expected an index of 0 or more, got %d", index);
    if (index < 0 || check_type("device_new_type", type))
        capi_report();
    else
        capi_publish_device(&made, ((struct device){ type == MLX_GPU ? DEVICE_GPU : DEVICE_CPU, index }));
    return made;
}

int mlx_device_free(mlx_device dev) { return capi_gone(HANDLE_device, dev.ctx), free(dev.ctx), 0; }

int mlx_device_set(mlx_device *dev, const mlx_device src)
{
    struct device d;
    return capi_device(__func__, "src", src, &d) ? capi_report() : capi_publish_device(dev, d);
}

int mlx_device_tostring(mlx_string *str, mlx_device dev)
{
    struct device d;
    if (capi_device(__func__, "dev", dev, &d))
        return capi_report();
    return capi_publish_text(str, capi_text_copy(device_text(d)));
}

bool mlx_device_equal(mlx_device lhs, mlx_device rhs)
{
    const struct device *a = lhs.ctx, *b = rhs.ctx;
    return a == b || (a && b && a->type == b->type && a->index == b->index);
}

int mlx_device_get_index(int *index, mlx_device dev)
{
    struct device d;
    if (capi_device(__func__, "dev", dev, &d) || !capi_out(index))
        return capi_report();
    *index = d.index;
    return 0;
}

int mlx_device_get_type(mlx_device_type *type, mlx_device dev)
{
    struct device d;
    if (capi_device(__func__, "dev", dev, &d) || !capi_out(type))
        return capi_report();
    *type = d.type == DEVICE_GPU ? MLX_GPU : MLX_CPU;
    return 0;
}

int mlx_get_default_device(mlx_device *dev) { return capi_publish_device(dev, default_device()); }

int mlx_get_thread_device(mlx_device *res)
{
    struct device d;
    if (!capi_out(res))
        return capi_report();
    if (thread_device(&d))
        return capi_publish_device(res, d);
    mlx_device_free(*res);
    res->ctx = NULL;
    return 0;
}

int mlx_set_thread_device(const mlx_device dev) { return set_thread_device(dev.ctx) ? capi_report() : 0; }

int mlx_set_default_device(mlx_device dev)
{
    struct device d;
    return capi_device(__func__, "dev", dev, &d) || set_default_device(d) ? capi_report() : 0;
}

int mlx_device_is_available(bool *avail, mlx_device dev)
{
    struct device d;
    if (capi_device(__func__, "dev", dev, &d) || !capi_out(avail))
        return capi_report();
    *avail = d.index < device_count(d.type);
    return 0;
}

int mlx_device_count(int *count, mlx_device_type type)
{
    if (!capi_out(count) || check_type("device_count", type))
        return capi_report();
    *count = device_count(type == MLX_GPU ? DEVICE_GPU : DEVICE_CPU);
    return 0;
}

/* Facts about a device, as its backend tells them. */

struct fact {
    char *key, *text; /* text NULL: a number */
    size_t number;
};
struct info {
    size_t n;
    struct fact *facts;
};

static void free_info(struct info *info)
{
    for (size_t i = 0; info && i < info->n; i++) {
        free(info->facts[i].key);
        free(info->facts[i].text);
    }
    if (info)
        free(info->facts);
    free(info);
}

static void add_fact(void *ctx, const char *key, const char *text, size_t number)
{
    struct info *info = ctx;
    struct fact f = { capi_text_copy(key), text ? capi_text_copy(text) : NULL, number };
    struct fact *facts = mx_malloc((info->n + 1) * sizeof *facts);
    if (mx_failed()) {
        free(f.key);
        free(f.text);
        free(facts);
        return;
    }
    if (info->n)
        memcpy(facts, info->facts, info->n * sizeof *facts);
    facts[info->n++] = f;
    free(info->facts);
    info->facts = facts;
}

/* The fact of that name; NULL after a failure, or with `optional` where there is none. */
static const struct fact *fact_of(const char *func, const void *res, mlx_device_info handle, const char *key,
                                  bool optional)
{
    const struct info *info = handle.ctx;
    if (!capi_need(func, "a place for the result", "res", res) ||
        !capi_held(func, "the facts about a device", "info", handle.ctx) || !capi_need(func, "a string", "key", key))
        return NULL;
    for (size_t i = 0; i < info->n; i++)
        if (!strcmp(info->facts[i].key, key))
            return &info->facts[i];
    if (!optional)
        mx_fail("[device_info] expected the name of a fact about the device, got \"%s\"", key);
    return NULL;
}

mlx_device_info mlx_device_info_new(void) { return (mlx_device_info){ NULL }; }

int mlx_device_info_get(mlx_device_info *info, mlx_device dev)
{
    struct device d;
    if (capi_device(__func__, "dev", dev, &d) || !capi_out(info))
        return capi_report();
    struct info *found = mx_malloc(sizeof *found);
    if (!found)
        return capi_report();
    *found = (struct info){ 0, NULL };
    if (d.index < device_count(d.type))
        devices_of(d.type)->info(d.index, add_fact, found);
    if (mx_failed()) {
        free_info(found);
        return capi_report();
    }
    if (info->ctx) {
        struct info swap = *(struct info *)info->ctx;
        *(struct info *)info->ctx = *found;
        *found = swap;
        free_info(found);
    } else if (capi_made(HANDLE_device_info, found, __func__)) {
        free_info(found);
        return capi_report();
    } else {
        info->ctx = found;
    }
    return 0;
}

int mlx_device_info_free(mlx_device_info info)
{
    capi_gone(HANDLE_device_info, info.ctx);
    return free_info(info.ctx), 0;
}

int mlx_device_info_has_key(bool *exists, mlx_device_info info, const char *key)
{
    const struct fact *f = fact_of(__func__, exists, info, key, true);
    if (mx_failed())
        return capi_report();
    *exists = f != NULL;
    return 0;
}

int mlx_device_info_is_string(bool *is_string, mlx_device_info info, const char *key)
{
    const struct fact *f = fact_of(__func__, is_string, info, key, false);
    if (!f)
        return capi_report();
    *is_string = f->text != NULL;
    return 0;
}

int mlx_device_info_get_string(const char **value, mlx_device_info info, const char *key)
{
    const struct fact *f = fact_of(__func__, value, info, key, false);
    if (f && !f->text)
        mx_fail_as(MX_TYPE, "[device_info] expected a fact that is a text, got the number \"%s\"", key);
    if (!f || mx_failed())
        return capi_report();
    *value = f->text;
    return 0;
}

int mlx_device_info_get_size(size_t *value, mlx_device_info info, const char *key)
{
    const struct fact *f = fact_of(__func__, value, info, key, false);
    if (f && f->text)
        mx_fail_as(MX_TYPE, "[device_info] expected a fact that is a number, got the text \"%s\"", key);
    if (!f || mx_failed())
        return capi_report();
    *value = f->number;
    return 0;
}

int mlx_device_info_get_keys(mlx_vector_string *keys, mlx_device_info info)
{
    const struct info *facts = info.ctx;
    struct list *l = NULL;
    if (capi_held(__func__, "the facts about a device", "info", info.ctx))
        l = capi_list_new(TEXTS);
    for (size_t i = 0; l && i < facts->n; i++)
        if (capi_list_add(l, (union slot){ .text = facts->facts[i].key }))
            break; /* reported below */
    return capi_publish_list(keys, l);
}
