"""The faults that are planted into kernels: kinds from NVIDIA's CUDA C++ Programming Guide and PTX manual, places from the kernels.

Each is (kind, file below src or tests, what stands there, what stands there instead, suites that run that code). What ends with ; or }
is a statement, the rest an expression. A number behind the file chooses among several places: "file:2" is the second."""

OPS = "ops/cuda/"
EXACT, TILE, BLOCK, LANES, EACH = (OPS + f for f in ("product/exact.cu", "attention/tile.cuh", "device/block.cuh", "device/lanes.cuh", "device/each.cuh"))
LOSS, REDUCE, ROWS, TENSOR = (*(OPS + f for f in ("loss.cu", "reduce.cu", "device/row_blocks.cuh")), "cuda/tensor_product.cuh")
PRODUCT, WARPGROUPS, PRODUCTS = OPS + "product/tensor_tile.cuh", OPS + "product/warpgroups.cu", "TensorCore*"
BARRIER = "__syncthreads();"
LINEAR, ATTENTION, NORM, SUMS, LARGEST = "*Linear*", "*Attention*", "*Norm*", "*Reduce*:*ExactSquares*", "*Loss*:*Reduce*"
EACH_ROW = "*Activation*:*Elementwise*:*Embedding*"

FAULTS = [
    ("missing barrier", EXACT + ":1", BARRIER, "", LINEAR),
    ("missing barrier", EXACT + ":2", BARRIER, "", LINEAR),
    ("missing barrier", EXACT + ":3", BARRIER, "", LINEAR),
    ("missing barrier", TILE + ":1", BARRIER, "", ATTENTION),
    ("missing barrier", TILE + ":2", BARRIER, "", ATTENTION),
    ("missing barrier", TILE + ":4", BARRIER, "", ATTENTION),
    ("missing barrier", BLOCK + ":2", BARRIER, "", LARGEST),
    ("missing barrier", LOSS + ":2", BARRIER, "", "*Loss*"),
    ("missing barrier", REDUCE + ":1", BARRIER, "", SUMS),
    ("missing barrier", REDUCE + ":3", BARRIER, "", SUMS),
    ("divergent barrier", BLOCK + ":1", BARRIER, "if (threadIdx.x >= warp) __syncthreads();", LARGEST),
    ("divergent barrier", TILE + ":2", BARRIER, "if (own_row(0) < a.end) __syncthreads();", ATTENTION),
    ("divergent barrier", EXACT + ":3", BARRIER, "if (i0 + row >= task.m) return; __syncthreads();", LINEAR),
    ("wrong mask of a shuffle", LANES, "threadIdx.x % 32 < 16 ? 0xFFFFU : 0xFFFF0000U", "0xFFFFFFFFU", NORM),
    ("wrong lane of a shuffle", LANES, "__shfl_xor_sync(half_warp(), value, apart)", "__shfl_xor_sync(half_warp(), value, 1)", NORM),
    ("wrong lane of a shuffle", LANES + ":2", "__shfl_xor_sync(half_warp(), value, apart)",
     "__shfl_xor_sync(half_warp(), value, apart > 1 ? apart : 2)", ATTENTION),
    ("wrong lane of a shuffle", BLOCK, "__shfl_xor_sync(whole_warp, value, apart)", "__shfl_xor_sync(whole_warp, value, 2)", LARGEST),
    ("bound off by one", EACH, "if (i < count) body(i);", "if (i <= count) body(i);", EACH_ROW),
    ("bound off by one", EACH, "j < columns", "j <= columns", EACH_ROW),
    ("bound off by one", LANES, "row < rows", "row <= rows", NORM),
    ("bound off by one", ROWS, "if (j >= columns) return;", "if (j > columns) return;", NORM),
    ("bound off by one", LOSS, "j < last", "j <= last", "*Loss*"),
    ("bound off by one", OPS + "attention/forward.cu", "key <= query", "key < query", ATTENTION),
    ("missing bound", EXACT, "i < task.m && j < task.n", "j < task.n", LINEAR),
    ("missing bound", EXACT, "first + i < count && k + kk < end", "k + kk < end", LINEAR),
    ("missing bound", EXACT, "first + i < count && k + kk < end", "first + i < count", LINEAR),
    ("too few tiles", EXACT, "blocks_of(task.m, tile)", "static_cast<unsigned>(task.m / tile)", LINEAR),
    ("too few tiles", EACH, "blocks_of(count, element_threads)", "static_cast<unsigned>(count / element_threads)", EACH_ROW),
    ("too few tiles", TILE, "div_up(position + count, tile_size)", "(position + count) / tile_size", ATTENTION),
    ("too little shared memory", EXACT, "sizeof(TileShared)", "sizeof(TileShared) - 16", LINEAR),
    ("too little shared memory", REDUCE, "sizeof(Doubles)", "sizeof(Doubles) / 2", SUMS),
    ("too little shared memory", OPS + "attention/forward.cu", "sizeof(TileShared)", "sizeof(TileShared) / 2", ATTENTION),
    ("shared memory is not written", EXACT, "to[kk][i] = value;", "if (value != 0) to[kk][i] = value;", LINEAR),
    ("shared memory is not written", BLOCK, "threadIdx.x % warp == 0", "threadIdx.x == 0", LARGEST),
    ("shared memory is not written", REDUCE, "if (threadIdx.x < digit_count) shared.digits[threadIdx.x] = 0;",
     "if (threadIdx.x + 1 < digit_count) shared.digits[threadIdx.x] = 0;", SUMS),
    ("race", LOSS + ":6", "threadIdx.x == 0", "threadIdx.x < 2", "*Loss*"),
    ("race", REDUCE, "if (threadIdx.x == 0) digits[blockIdx.x] += sum;", "if (threadIdx.x < 2) digits[blockIdx.x] += sum;", SUMS),
    ("race", REDUCE, "if (threadIdx.x != 0) continue;", "if (threadIdx.x > 1) continue;", SUMS),
    ("order of a sum", ROWS, "parts[b * stride + j]", "parts[(blocks - 1 - b) * stride + j]", NORM),
    ("order of a sum", OPS + "embedding.cu", "place / group_tokens == group", "place >= 0", "*Embedding*"),
    ("swapped indices", EXACT, "shared.b[kk][column + c]", "shared.b[kk][(column + c) ^ 1]", LINEAR),
    ("swapped indices", TILE, "shared.scores[k][own_row(r)]", "shared.scores[own_row(r)][k]", ATTENTION),
    ("wrong stride", OPS + "device/storage.cuh", "i * stride + j", "i * (stride + 1) + j", NORM),
    ("copies that are not waited for", TENSOR, "ops::cuda::copies_wait<1>();", "ops::cuda::copies_wait<2>();", "CudaTensor*"),
    ("copies that are not waited for", TENSOR, "ops::cuda::copies_wait<0>();", "ops::cuda::copies_wait<1>();", "CudaTensor*"),
    ("copies that are not waited for", TENSOR, "ops::cuda::copies_commit();", "", "CudaTensor*"),
    ("missing barrier", TENSOR + ":1", BARRIER, "", "CudaTensor*"),
    ("missing barrier", TENSOR + ":2", BARRIER, "", "CudaTensor*"),
    ("wrong fragment", TENSOR, "ops::cuda::mma_16816(left, a, {b[0], b[1]});", "ops::cuda::mma_16816(left, a, {b[1], b[0]});",
     "CudaTensor*"),
    ("copies that are not waited for", PRODUCT, "copies_wait<1>();", "copies_wait<2>();", PRODUCTS),
    ("missing barrier", PRODUCT + ":1", BARRIER, "", PRODUCTS),
    ("missing barrier", PRODUCT + ":2", BARRIER, "", PRODUCTS),
    ("missing barrier", PRODUCT + ":3", BARRIER, "", PRODUCTS),
    ("wrong fragment", PRODUCT, "k() / piece ^ row() % 8", "k() / piece ^ row() % 4", PRODUCTS),
    ("wrong fragment", WARPGROUPS, "thread() / 128 * 64 * depth", "thread() / 128 * 32 * depth", PRODUCTS),
    ("order of a sum", OPS + "product/tensor.cu", "parts[p * apart + i * columns + j]", "parts[(count - 1 - p) * apart + i * columns + j]", PRODUCTS),
    ("wrong fragment", TENSOR, "warp * 16 + lane % 16", "warp * 16 + lane / 2", "CudaTensor*"),
    ("wrong fragment", TENSOR, "lane / 4 + i / 2 * 8", "lane / 4 + i % 2 * 8", "CudaTensor*"),
]
