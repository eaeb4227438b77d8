/* record.h: what record.c and held.c have of each other, under the stream's lock. */
#ifndef MX_CUDA_RECORD_H
#define MX_CUDA_RECORD_H

struct gpu_stream;

/* The launch of a kernel of ours goes on the tape, or on the driver's stream behind what was on that; the driver's
 * error. */
int record_kernel(struct gpu_stream *q, void *kernel, unsigned blocks, unsigned threads, unsigned shared, void *args[]);
/* The same of all that is held, if anything is. */
int record_held(struct gpu_stream *q);

#endif
