// One time step of DIM_n leaky integrate-and-fire neurons in whole numbers, so that every config gives the same:
//
//   a neuron that spiked `period` steps ago or less waits, and what comes in is lost;
//   another has the voltage v - (v >> leak_shift) + current + drive, and from `threshold` on spikes: it starts again at 0.
//
// `refractory` counts the steps to wait. `spiking` gets one bit a neuron, and `spikes`, a ring of DIM_n places, the
// neurons that spiked, in no order, behind the *count that are there. `cleared` is the slot of the current that the step
// before read: it gets zeros for its next round (see spike_delivery).
//
// A thread has items vectors of load_width neurons, and reads `loads` of them at once. It finds its places in the list by
// an atomic a spike (aggregation `thread`), or one for all spikes of a warp or block (Adinetz 2014, "Optimized Filtering with
// Warp-Aggregated Atomics").

enum Aggregation { thread, warp, block };

constexpr int LANES_PER_WORD = 32 / load_width;  // whose neurons share a word of the bitmask

template <class Number>
struct alignas(sizeof(Number) * load_width) Vector {
    Number values[load_width];
};
using Whole = Vector<int>;
using Small = Vector<unsigned char>;

template <class Vector, class Number>
__device__ __forceinline__ Vector load(const Number* __restrict__ from, int position) {
    return *reinterpret_cast<const Vector*>(from + position);
}

template <class Vector, class Number>
__device__ __forceinline__ void store(Number* to, int position, const Vector& vector) {
    *reinterpret_cast<Vector*>(to + position) = vector;
}

// The word of the bitmask that this lane's bits belong to, in all lanes that share it.
__device__ __forceinline__ unsigned int word_of(unsigned int bits) {
    if constexpr (load_width == 1) return __ballot_sync(0xffffffffu, bits);
    bits <<= threadIdx.x % LANES_PER_WORD * load_width;
#pragma unroll
    for (int distance = LANES_PER_WORD / 2; distance > 0; distance /= 2)
        bits |= __shfl_xor_sync(0xffffffffu, bits, distance, LANES_PER_WORD);
    return bits;
}

// Gives the lanes of a warp a place in the list, by one atomic addition.
__device__ __forceinline__ unsigned int place_of_warp(unsigned int* count, int total) {
    const unsigned int place = threadIdx.x % 32 == 0 && total ? atomicAdd(count, static_cast<unsigned int>(total)) : 0;
    return __shfl_sync(0xffffffffu, place, 0);
}

// The same by one atomic addition of the block on device memory.
__device__ __forceinline__ unsigned int place_of_block(unsigned int* count, int total) {
    __shared__ unsigned int of_block, start;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    const unsigned int place = place_of_warp(&of_block, total);
    __syncthreads();
    if (threadIdx.x == 0) start = of_block ? atomicAdd(count, of_block) : 0;
    __syncthreads();
    return start + place;
}

// Bit `item * load_width + i` says whether neuron i of the vector `item` spiked.
__device__ __forceinline__ void write_list(int* spikes, unsigned int* count, unsigned int bits, int first) {
    constexpr int BITS = items * load_width;
    const auto neuron_of = [&](int bit) { return first + bit / load_width * block_size * load_width + bit % load_width; };
    if constexpr (aggregation == thread) {
        for (; bits; bits &= bits - 1) spikes[atomicAdd(count, 1u) % DIM_n] = neuron_of(__ffs(bits) - 1);
    } else {
        int total = 0;
#pragma unroll
        for (int bit = 0; bit < BITS; ++bit) total += __popc(__ballot_sync(0xffffffffu, bits >> bit & 1));
        unsigned int place = aggregation == warp ? place_of_warp(count, total) : place_of_block(count, total);
        if (total == 0) return;
        const unsigned int below = (1u << threadIdx.x % 32) - 1;
#pragma unroll
        for (int bit = 0; bit < BITS; ++bit) {
            const unsigned int lanes = __ballot_sync(0xffffffffu, bits >> bit & 1);
            if (bits >> bit & 1) spikes[(place + __popc(lanes & below)) % DIM_n] = neuron_of(bit);
            place += __popc(lanes);
        }
    }
}

extern "C" __global__ void __launch_bounds__(block_size) lif_update(
    int* __restrict__ next_voltage, unsigned char* __restrict__ next_refractory, unsigned int* __restrict__ spiking,
    unsigned int* count, int* __restrict__ spikes, int* __restrict__ cleared, const int* __restrict__ voltage,
    const unsigned char* __restrict__ refractory, const int* __restrict__ current, int threshold, int drive,
    int leak_shift, int period) {
    const int first = (blockIdx.x * items * block_size + threadIdx.x) * load_width;
    unsigned int spiked = 0;
#pragma unroll 1
    for (int start = 0; start < items; start += loads) {
        Whole voltages[loads], currents[loads];
        Small waits[loads];
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            const int position = first + (start + i) * block_size * load_width;
            if (position >= DIM_n) continue;
            voltages[i] = load<Whole>(voltage, position);
            currents[i] = load<Whole>(current, position);
            waits[i] = load<Small>(refractory, position);
        }
#pragma unroll
        for (int i = 0; i < loads; ++i) {
            const int position = first + (start + i) * block_size * load_width;
            unsigned int bits = 0;
            if (position < DIM_n) {
#pragma unroll
                for (int j = 0; j < load_width; ++j) {
                    const int before = voltages[i].values[j], wait = waits[i].values[j];
                    const int after = before - (before >> leak_shift) + currents[i].values[j] + drive;
                    const bool spikes_now = wait == 0 && after >= threshold;
                    voltages[i].values[j] = wait || spikes_now ? 0 : after;
                    waits[i].values[j] = spikes_now ? period : max(wait - 1, 0);
                    bits |= static_cast<unsigned int>(spikes_now) << j;
                }
                store(next_voltage, position, voltages[i]);
                store(next_refractory, position, waits[i]);
                store(cleared, position, Whole{});
            }
            const unsigned int word = word_of(bits);
            if (position < DIM_n && threadIdx.x % LANES_PER_WORD == 0) spiking[position / 32] = word;
            spiked |= bits << (start + i) * load_width;
        }
    }
    write_list(spikes, count, spiked, first);
}
