/* matmul.h: the arguments that kernels read. */
#ifndef MX_OPS_MATMUL_H
#define MX_OPS_MATMUL_H

/* alpha a b + beta c */
struct addmm_args { double alpha, beta; };

#endif
