/* c_stream.c: stream handles.
 *
 * Streams live as long as the process, so a handle's ctx is the stream itself and freeing it is
 * nothing to do.  A stream that could not be made is a handle that everything refuses: an empty one
 * would have the work done elsewhere. */
#include <stdio.h>

#include "capi/capi.h"
#include "run/eval.h"

const char capi_no_stream[1];

struct stream *capi_stream_refused(void)
{
    mx_fail_as(MX_RUNTIME, "[stream] expected a stream, got the handle of one that could not be made");
    return NULL;
}

/* For functions that need a stream of the caller's choice: an empty handle fails. */
static struct stream *stream_in(const char *func, const char *arg, mlx_stream s)
{
    if (!s.ctx)
        capi_refuse(func, "a stream", arg, "an empty handle");
    return capi_stream(s);
}

static mlx_stream made(struct stream *s)
{
    if (s)
        return (mlx_stream){ s };
    capi_report();
    return (mlx_stream){ (void *)(uintptr_t)capi_no_stream };
}

static int publish_stream(const char *func, mlx_stream *res, struct stream *s)
{
    if (!capi_need(func, "a place for the result", "stream", res) || !s)
        return capi_report();
    res->ctx = s;
    return 0;
}

mlx_stream mlx_stream_new(void) { return (mlx_stream){ NULL }; }

static struct stream *new_on(const char *func, mlx_device dev)
{
    struct device d;
    return capi_device(func, "dev", dev, &d) ? NULL : stream_new(d);
}

mlx_stream mlx_stream_new_device(mlx_device dev) { return made(new_on(__func__, dev)); }
int mlx_stream_make(mlx_stream *stream, mlx_device dev)
{
    return publish_stream(__func__, stream, new_on(__func__, dev));
}

int mlx_stream_set(mlx_stream *stream, const mlx_stream src)
{
    return publish_stream(__func__, stream, stream_in(__func__, "src", src));
}

int mlx_stream_free(mlx_stream stream)
{
    (void)stream;
    return 0;
}

int mlx_stream_tostring(mlx_string *str, mlx_stream stream)
{
    const struct stream *s = stream_in(__func__, "stream", stream);
    char text[128];
    if (!s)
        return capi_report();
    snprintf(text, sizeof text, "Stream(%s, %d)", device_text(s->device), s->index);
    return capi_publish_text(str, capi_text_copy(text));
}

bool mlx_stream_equal(mlx_stream lhs, mlx_stream rhs) { return lhs.ctx == rhs.ctx; }

int mlx_stream_get_device(mlx_device *dev, mlx_stream stream)
{
    const struct stream *s = stream_in(__func__, "stream", stream);
    return s ? capi_publish_device(dev, s->device) : capi_report();
}

int mlx_stream_get_index(int *index, mlx_stream stream)
{
    const struct stream *s = stream_in(__func__, "stream", stream);
    if (!s || !capi_out(index))
        return capi_report();
    *index = s->index;
    return 0;
}

int mlx_synchronize(mlx_stream stream)
{
    struct stream *s = stream.ctx ? capi_stream(stream) : default_stream(default_device());
    return !s || eval_refused() || stream_synchronize(s) ? capi_report() : capi_end();
}

int mlx_get_default_stream(mlx_stream *stream, mlx_device dev)
{
    struct device d;
    return publish_stream(__func__, stream, capi_device(__func__, "dev", dev, &d) ? NULL : default_stream(d));
}

int mlx_set_default_stream(mlx_stream stream)
{
    struct stream *s = stream_in(__func__, "stream", stream);
    if (!s)
        return capi_report();
    set_default_stream(s);
    return 0;
}

mlx_stream mlx_default_cpu_stream_new(void) { return made(default_stream((struct device){ DEVICE_CPU, 0 })); }

mlx_stream mlx_default_gpu_stream_new(void) { return made(default_stream((struct device){ DEVICE_GPU, 0 })); }
