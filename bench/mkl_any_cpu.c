/* Preloaded into PyTorch on AMD processors: its MKL takes kernels of AVX-512 only where this says that Intel made the processor, and
 * falls back to general ones elsewhere (0.4 of their rate on a Zen 5). */
int mkl_serv_intel_cpu_true(void) { return 1; }
