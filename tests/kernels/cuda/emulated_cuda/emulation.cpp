// Runs a kernel on the CPU: emulation KERNEL SHARED_BYTES GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z FILE...
// KERNEL is a library made of kernel.cpp. Each file holds the bytes of one argument and gets them back as the kernel leaves them.
#include "emulation.h"

#include "cuda_fp16.h"
#include "watch.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx, blockDim, gridDim;

// What a kernel declares as `extern __shared__ ... name[]`.
constexpr std::size_t MOST_SHARED_BYTES = 227 * 1024;
extern "C" {
alignas(1024) char emulated_shared_memory[MOST_SHARED_BYTES];
}

namespace emulation {

constexpr std::size_t STACK_BYTES = 64 * 1024;

// Where threads wait until all of them are there.
struct Meeting {
    int arrived = 0;
    int generation = 0;
    const char* place = nullptr;
    void* of_lanes[WARP];

    void release() {
        arrived = 0;
        place = nullptr;
        ++generation;
    }
};

struct Copy {
    void* shared;
    const void* global;
    bool inside;
};

struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    uint3 index;
    bool finished = false;
    Meeting* meeting = nullptr;  // what it waits at
    int generation = 0;          // of that meeting when it came
    std::vector<Copy> pending;
    std::vector<std::vector<Copy>> committed;

    bool waits() const { return meeting && meeting->generation == generation; }
};

std::vector<Fibre> fibres;
std::vector<Meeting> warps;
Meeting all;
int living = 0;
int running = 0;
ucontext_t scheduler;
std::vector<void*> arguments;
void (*call_kernel)(void* const* arguments, int count);

int lane() { return running % WARP; }

void fail(const char* what) {
    std::fprintf(stderr, "%s (block %u %u %u, thread %u %u %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z,
                 threadIdx.x, threadIdx.y, threadIdx.z);
    std::exit(3);
}

void give_way(Meeting& meeting, int generation) {
    Fibre& self = fibres[running];
    self.meeting = &meeting;
    self.generation = generation;
    swapcontext(&self.context, &scheduler);
    self.meeting = nullptr;
}

void meet_all() {
    const int generation = all.generation;
    if (++all.arrived == living)
        all.release();
    else
        give_way(all, generation);
}

void meet_warp(const char* place, void* brought, void (*action)(void* const*)) {
    Meeting& meeting = warps[running / WARP];
    const int generation = meeting.generation;
    if (meeting.place && std::strcmp(meeting.place, place)) fail("the lanes of a warp wait at different places");
    meeting.place = place;
    meeting.of_lanes[lane()] = brought;
    if (++meeting.arrived < WARP) return give_way(meeting, generation);
    action(meeting.of_lanes);
    meeting.release();
}

void run_fibre() {
    call_kernel(arguments.data(), static_cast<int>(arguments.size()));
    fibres[running].finished = true;
    if (--living > 0 && all.arrived == living) all.release();
    swapcontext(&fibres[running].context, &scheduler);
}

void start(Fibre& fibre, unsigned int thread) {
    const unsigned int rest = thread / blockDim.x;
    fibre.index = {thread % blockDim.x, rest % blockDim.y, rest / blockDim.y};
    fibre.finished = false;
    fibre.meeting = nullptr;
    fibre.pending.clear();
    fibre.committed.clear();
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = STACK_BYTES;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, run_fibre, 0);
}

// Runs the threads of one block to their ends.
void run_block(std::mt19937& random) {
    living = static_cast<int>(fibres.size());
    all = Meeting{};
    warps.assign((fibres.size() + WARP - 1) / WARP, Meeting{});
    std::vector<int> order;
    for (int thread = 0; thread < living; ++thread) {
        start(fibres[thread], thread);
        order.push_back(thread);
    }
    while (living) {
        bool progress = false;
        std::shuffle(order.begin(), order.end(), random);
        for (const int thread : order) {
            if (fibres[thread].finished || fibres[thread].waits()) continue;
            running = thread;
            threadIdx = fibres[thread].index;
            swapcontext(&scheduler, &fibres[thread].context);
            progress = true;
        }
        if (!progress) fail("deadlock: some threads wait for others that never come");
    }
}

void run_grid(std::size_t shared_bytes) {
    fibres = std::vector<Fibre>(blockDim.x * blockDim.y * blockDim.z);
    std::mt19937 random(1);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
                std::memset(emulated_shared_memory, 0xff, shared_bytes);
                run_block(random);
            }
}

struct Vote {
    bool holds;
    unsigned int result = 0;
};

void count_votes(void* const* of_lanes) {
    auto lanes = reinterpret_cast<Vote* const*>(of_lanes);
    unsigned int result = 0;
    for (int which = 0; which < WARP; ++which) result |= static_cast<unsigned int>(lanes[which]->holds) << which;
    for (int which = 0; which < WARP; ++which) lanes[which]->result = result;
}

struct Matrices {
    unsigned int (&registers)[4];
    const void* row;
};

// ldmatrix.x4: lanes 8 i to 8 i + 7 bring the rows of matrix i; each lane gets two elements of each matrix.
template <bool TRANSPOSED>
void distribute(void* const* of_lanes) {
    auto lanes = reinterpret_cast<Matrices* const*>(of_lanes);
    for (int which = 0; which < WARP; ++which)
        for (int matrix = 0; matrix < 4; ++matrix) {
            unsigned short pair[2];
            for (int element = 0; element < 2; ++element) {
                const int major = which / 4, minor = which % 4 * 2 + element;
                const void* row = lanes[8 * matrix + (TRANSPOSED ? minor : major)]->row;
                pair[element] = static_cast<const unsigned short*>(row)[TRANSPOSED ? major : minor];
            }
            std::memcpy(&lanes[which]->registers[matrix], pair, 4);
        }
}

template <bool TRANSPOSED>
void load(const char* place, unsigned int (&registers)[4], const void* row) {
    if (reinterpret_cast<std::size_t>(row) % 16) fail("a row of ldmatrix is not aligned to 16 bytes");
    watch::access(row, 16, false);
    Matrices own{registers, row};
    meet_warp(place, &own, distribute<TRANSPOSED>);
}

struct Products {
    float (&sums)[4];
    const unsigned int (&a)[4];
    unsigned int b[2];
};

float half_of(unsigned int pair, int which) {
    half both[2];
    std::memcpy(both, &pair, 4);
    return __half2float(both[which]);
}

// mma.m16n8k16 with the fragments of the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type").
void multiply(void* const* of_lanes) {
    auto lanes = reinterpret_cast<Products* const*>(of_lanes);
    float left[16][16], right[16][8];
    for (int which = 0; which < WARP; ++which)
        for (int part = 0; part < 4; ++part)
            for (int pair = 0; pair < 2; ++pair) {
                const int group = which / 4, column = which % 4 * 2 + pair;
                left[group + 8 * (part % 2)][column + 8 * (part / 2)] = half_of(lanes[which]->a[part], pair);
                if (part < 2) right[column + 8 * part][group] = half_of(lanes[which]->b[part], pair);
            }
    for (int which = 0; which < WARP; ++which)
        for (int part = 0; part < 4; ++part)
            for (int step = 0; step < 16; ++step)
                lanes[which]->sums[part] += left[which / 4 + 8 * (part / 2)][step] * right[step][which % 4 * 2 + part % 2];
}

struct SparseProducts {
    float (&sums)[4];
    const unsigned int (&a)[4];
    const unsigned int (&b)[4];
    unsigned int metadata;
};

// mma.sp.m16n8k32 with sparsity selector 0 (PTX ISA, "Multiply-and-Accumulate Instruction: mma.sp"): of each row 16
// elements of 32 are there. Lane 4 r + h says in its lower 16 bits where those of row r in columns 16 h to 16 h + 15
// belong, two bits for each, the first lowest, and in its upper ones those of row r + 8. Other lanes are not asked.
void multiply_sparse(void* const* of_lanes) {
    auto lanes = reinterpret_cast<SparseProducts* const*>(of_lanes);
    float left[16][32] = {}, right[32][8];
    for (int which = 0; which < WARP; ++which)
        for (int part = 0; part < 4; ++part)
            for (int pair = 0; pair < 2; ++pair) {
                const int row = which / 4 + 8 * (part % 2), kept = which % 4 * 2 + pair + 8 * (part / 2);
                const unsigned int words = lanes[which / 4 * 4 + kept / 8]->metadata >> (row < 8 ? 0 : 16);
                const int first = kept % 8 / 2 * 2 * 2;  // bit of the first of the two in a block of four
                const int block = kept / 8 * 16 + kept % 8 / 2 * 4;
                if ((words >> first & 3) >= (words >> (first + 2) & 3)) fail("the indices of two of four do not rise");
                left[row][block + (words >> kept % 8 * 2 & 3)] = half_of(lanes[which]->a[part], pair);
                right[which % 4 * 2 + pair + 8 * part][which / 4] = half_of(lanes[which]->b[part], pair);
            }
    for (int which = 0; which < WARP; ++which)
        for (int part = 0; part < 4; ++part)
            for (int step = 0; step < 32; ++step)
                lanes[which]->sums[part] += left[which / 4 + 8 * (part / 2)][step] * right[step][which % 4 * 2 + part % 2];
}

// An argument, of exactly its bytes, so that the address sanitizer sees what is read or written beside it.
struct Content {
    std::string path;
    std::size_t bytes;
    void* data = nullptr;

    explicit Content(const char* file) : path(file) {
        std::ifstream stream(path, std::ios::binary);
        const std::vector<char> content{std::istreambuf_iterator<char>(stream), {}};
        bytes = content.size();
        if (posix_memalign(&data, 256, bytes)) fail("out of memory");
        std::memcpy(data, content.data(), bytes);
        arguments.push_back(data);
        watch::argument(data, bytes);
    }

    void write_back() const { std::ofstream(path, std::ios::binary).write(static_cast<char*>(data), bytes); }
};

template <class Function>
Function* function_of(void* library, const char* name) {
    void* const found = library ? dlsym(library, name) : nullptr;
    if (!found) fail(dlerror());
    return reinterpret_cast<Function*>(found);
}

}  // namespace emulation

void __syncwarp(unsigned int mask) {
    if (mask != ~0u) emulation::fail("only whole warps are emulated");
    emulation::meet_warp("__syncwarp", nullptr, [](void* const*) {});
}

unsigned int __ballot_sync(unsigned int mask, bool holds) {
    if (mask != ~0u) emulation::fail("only whole warps are emulated");
    emulation::Vote own{holds};
    emulation::meet_warp("__ballot_sync", &own, emulation::count_votes);
    return own.result;
}

// Copies land only when they are waited for, as late as the hardware may let them.
void copy_async(void* shared, const void* global, bool inside) {
    if (inside) watch::access(global, 16, false);
    watch::access(shared, 16, true);
    emulation::fibres[emulation::running].pending.push_back({shared, global, inside});
}

void commit_copies() {
    emulation::Fibre& self = emulation::fibres[emulation::running];
    self.committed.push_back(std::move(self.pending));
    self.pending.clear();
}

void wait_for_copies(int latest) {
    auto& groups = emulation::fibres[emulation::running].committed;
    while (static_cast<int>(groups.size()) > latest) {
        for (const emulation::Copy& copy : groups.front())
            if (copy.inside)
                std::memcpy(copy.shared, copy.global, 16);
            else
                std::memset(copy.shared, 0, 16);
        groups.erase(groups.begin());
    }
}

void load_matrices(unsigned int (&registers)[4], const void* row) {
    emulation::load<false>("ldmatrix", registers, row);
}

void load_matrices_transposed(unsigned int (&registers)[4], const void* row) {
    emulation::load<true>("ldmatrix.trans", registers, row);
}

void multiply_add(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    emulation::Products own{sums, a, {b0, b1}};
    emulation::meet_warp("mma", &own, emulation::multiply);
}

void multiply_add_sparse(float (&sums)[4], const unsigned int (&a)[4], const unsigned int (&b)[4],
                         unsigned int metadata) {
    emulation::SparseProducts own{sums, a, b, metadata};
    emulation::meet_warp("mma.sp", &own, emulation::multiply_sparse);
}

int main(int, char** texts) {
    const auto number = [&](int which) { return static_cast<unsigned int>(std::stoul(texts[which])); };
    gridDim = {number(3), number(4), number(5)};
    blockDim = {number(6), number(7), number(8)};
    void* const kernel = dlopen(texts[1], RTLD_NOW);
    emulation::call_kernel = emulation::function_of<void(void* const*, int)>(kernel, "call_kernel");
    std::vector<emulation::Content> contents;
    for (char** text = texts + 9; *text; ++text) contents.emplace_back(*text);
    const std::size_t shared_bytes = number(2);
    watch::shared_memory(emulated_shared_memory, shared_bytes, MOST_SHARED_BYTES);
    emulation::function_of<void(void* const*)>(kernel, "set_constants")(emulation::arguments.data());
    emulation::run_grid(shared_bytes);
    watch::report();
    for (const emulation::Content& content : contents) content.write_back();
}
