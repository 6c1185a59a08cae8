// What the device's rules take for granted of a GPU, and what it can do at best, in seconds and without
// Python:
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I native/include -I native/src -o probe
//   probe.cu
// One line of JSON. The exit code is 1 where something that is taken for granted does not hold.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "cuda/primitives/warp.cuh"

namespace {

using outrider::cuda::mma_m16n8k16;

constexpr int kRows = 16, kColumns = 8, kInputs = 16;
constexpr int kProblems = 4096;
constexpr int kOutputs = kRows * kColumns;

void require(cudaError_t status, const char* call) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s failed: %s\n", call, cudaGetErrorString(status));
        std::exit(2);
    }
}

/// One product of random matrices.  # left: [kRows, kInputs], right: [kColumns, kInputs], both bf16
struct Problem {
    uint16_t left[kRows][kInputs];
    uint16_t right[kColumns][kInputs];
    float sums[kRows][kColumns];
};

__device__ uint32_t pair_of(const uint16_t* from) {
    return static_cast<uint32_t>(from[1]) << 16 | from[0];
}

__device__ void left_operand(const Problem& problem, int lane, uint32_t (&a)[4]) {
    for (int i = 0; i < 4; ++i) {
        a[i] = pair_of(&problem.left[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8]);
    }
}

/// The problem's product, its rows and columns moved round by so many places.  # out: [problems, kRows,
/// kColumns]
__global__ void multiply(const Problem* problems, int row_shift, int column_shift, float* out) {
    const int lane = threadIdx.x;
    const Problem& from = problems[blockIdx.x];
    __shared__ Problem moved;
    if (lane == 0) {
        for (int row = 0; row < kRows; ++row) {
            for (int k = 0; k < kInputs; ++k) {
                moved.left[(row + row_shift) % kRows][k] = from.left[row][k];
            }
            for (int column = 0; column < kColumns; ++column) {
                moved.sums[(row + row_shift) % kRows][(column + column_shift) % kColumns] =
                    from.sums[row][column];
            }
        }
        for (int column = 0; column < kColumns; ++column) {
            for (int k = 0; k < kInputs; ++k) {
                moved.right[(column + column_shift) % kColumns][k] = from.right[column][k];
            }
        }
    }
    __syncwarp();
    uint32_t a[4];
    left_operand(moved, lane, a);
    const int group = lane / 4, pair = lane % 4 * 2;
    const uint32_t b[2] = {pair_of(&moved.right[group][pair]), pair_of(&moved.right[group][pair + 8])};
    float sums[4];
    for (int i = 0; i < 4; ++i) {
        sums[i] = moved.sums[group + i / 2 * 8][pair + i % 2];
    }
    mma_m16n8k16(sums, a, b);
    for (int i = 0; i < 4; ++i) {
        const int row = (group + i / 2 * 8 + kRows - row_shift) % kRows;
        const int column = (pair + i % 2 + kColumns - column_shift) % kColumns;
        out[blockIdx.x * kOutputs + row * kColumns + column] = sums[i];
    }
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/// Where a matrix of bf16 lies in shared memory: unswizzled, in core matrices of 8 rows by 16 bytes, the
/// second 128 bytes after the first. (PTX ISA, matrix descriptor of wgmma.)
__device__ uint64_t descriptor_of(const void* shared) {
    const uint64_t address = __cvta_generic_to_shared(shared);
    constexpr uint64_t kApart = 128;
    return (address & 0x3FFFF) >> 4 | kApart >> 4 << 16 | kApart >> 4 << 32;
}
#endif

/// The same by wgmma: each warp of the four has the 16 rows of one problem, the columns are the first one's.
__global__ void multiply_in_group(const Problem* problems, float* out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Problem& own = problems[blockIdx.x];
    __shared__ __align__(128) uint16_t right[2][kColumns][8];
    if (threadIdx.x < kColumns * kInputs) {
        const int column = threadIdx.x / kInputs, k = threadIdx.x % kInputs;
        right[k / 8][column][k % 8] = own.right[column][k];
    }
    uint32_t a[4];
    left_operand(own, lane, a);
    float sums[4];
    for (int i = 0; i < 4; ++i) {
        sums[i] = own.sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, adds, "
        "1, 1, 0;\n"
        "}"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor_of(right))
        : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (warp == static_cast<int>(blockIdx.x % 4)) {  // all four have the same
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            out[blockIdx.x * kOutputs + row * kColumns + column] = sums[i];
        }
    }
#endif
}

__global__ void read(const uint4* from, size_t count, uint32_t* out) {
    uint32_t seen = 0;
    const size_t step = size_t{gridDim.x} * blockDim.x;
    size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        const uint4 values[] = {from[i], from[i + step], from[i + 2 * step], from[i + 3 * step]};
        for (const uint4& value : values) {
            seen ^= value.x ^ value.y ^ value.z ^ value.w;
        }
    }
    if (seen == 1) {  // so that nothing is left out
        *out = seen;
    }
}

__global__ void nothing() {}

/// Of all magnitudes that sums meet in, zeros among them.
std::vector<Problem> random_problems() {
    std::vector<Problem> problems(kProblems);
    uint64_t state = 1;
    const auto next = [&state] {
        return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33;
    };
    for (Problem& problem : problems) {
        const auto value = [&](int spread) {
            const uint32_t exponent = 127 - spread / 2 + next() % spread;
            return next() % 16 == 0 ? 0u : static_cast<uint32_t>(next() & 0x807F) | exponent << 7;
        };
        const int spread = 2 + static_cast<int>(next() % 24);
        for (auto& row : problem.left) {
            std::generate(std::begin(row), std::end(row),
                          [&] { return static_cast<uint16_t>(value(spread)); });
        }
        for (auto& column : problem.right) {
            std::generate(std::begin(column), std::end(column),
                          [&] { return static_cast<uint16_t>(value(spread)); });
        }
        for (auto& row : problem.sums) {
            for (float& sum : row) {
                const uint32_t bits = value(spread) << 16 | static_cast<uint32_t>(next() & 0xFFFF);
                std::memcpy(&sum, &bits, sizeof(bits));
            }
        }
    }
    return problems;
}

template <typename Action>
double milliseconds(const Action& action, cudaStream_t stream = nullptr) {
    cudaEvent_t began, ended;
    require(cudaEventCreate(&began), "cudaEventCreate");
    require(cudaEventCreate(&ended), "cudaEventCreate");
    std::vector<float> times;
    for (int run = 0; run < 9; ++run) {
        require(cudaEventRecord(began, stream), "cudaEventRecord");
        action();
        require(cudaEventRecord(ended, stream), "cudaEventRecord");
        require(cudaEventSynchronize(ended), "cudaEventSynchronize");
        float each = 0;
        require(cudaEventElapsedTime(&each, began, ended), "cudaEventElapsedTime");
        times.push_back(each);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

std::vector<float> downloaded(const float* from) {
    std::vector<float> values(size_t{kProblems} * kOutputs);
    require(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return values;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
    return std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

double read_rate(int multiprocessors) {
    constexpr size_t kBytes = size_t{4} << 30;
    uint4* memory = nullptr;
    require(cudaMalloc(&memory, kBytes), "cudaMalloc");
    require(cudaMemset(memory, 0x5A, kBytes), "cudaMemset");
    auto* out = reinterpret_cast<uint32_t*>(memory);
    const double time =
        milliseconds([&] { read<<<multiprocessors * 8, 512>>>(memory, kBytes / sizeof(uint4), out); });
    require(cudaGetLastError(), "read");
    cudaFree(memory);
    return kBytes / (time / 1e3);
}

/// Microseconds from one kernel to the next of a recorded graph.
double kernel_gap() {
    constexpr int kKernels = 1000;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < kKernels; ++i) {
        nothing<<<1, 32, 0, stream>>>();
    }
    require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    require(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    return milliseconds([&] { require(cudaGraphLaunch(executable, stream), "cudaGraphLaunch"); }, stream) *
           1e3 / kKernels;
}

}  // namespace

int main() {
    cudaDeviceProp properties;
    require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    const std::vector<Problem> problems = random_problems();
    Problem* on_device = nullptr;
    float* out = nullptr;
    require(cudaMalloc(&on_device, problems.size() * sizeof(Problem)), "cudaMalloc");
    require(cudaMalloc(&out, size_t{kProblems} * kOutputs * sizeof(float)), "cudaMalloc");
    require(cudaMemcpy(on_device, problems.data(), problems.size() * sizeof(Problem), cudaMemcpyHostToDevice),
            "cudaMemcpy");
    multiply<<<kProblems, 32>>>(on_device, 0, 0, out);
    const std::vector<float> expected = downloaded(out);
    bool is_positionless = true;
    for (int shift = 1; shift < kRows; ++shift) {
        multiply<<<kProblems, 32>>>(on_device, shift, shift % kColumns, out);
        is_positionless = is_positionless && same_bits(downloaded(out), expected);
    }
    const bool has_groups = properties.major == 9;
    bool is_same_in_group = true;
    if (has_groups) {
        require(cudaMemset(out, 0xFF, size_t{kProblems} * kOutputs * sizeof(float)), "cudaMemset");
        multiply_in_group<<<kProblems, 128>>>(on_device, out);
        is_same_in_group = same_bits(downloaded(out), expected);
    }
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf(
        "{\"gpu\": \"%s\", \"multiprocessors\": %d, \"l2_bytes\": %d, \"mma_is_positionless\": %s, "
        "\"wgmma_has_the_bits_of_mma\": %s, \"read_rate\": %.4g, \"kernel_gap_us\": %.3f}\n",
        properties.name, properties.multiProcessorCount, properties.l2CacheSize,
        is_positionless ? "true" : "false", has_groups ? (is_same_in_group ? "true" : "false") : "null",
        read_rate(properties.multiProcessorCount), kernel_gap());
    return is_positionless ? 0 : 1;
}
