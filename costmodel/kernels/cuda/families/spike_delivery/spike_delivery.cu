// Delivers the spikes of one time step: adds the weight of each synapse of a neuron that spiked to current[slot][target],
// a ring of DIM_d + 1 slots of DIM_n whole numbers. `now` is the slot of this step; a synapse of delay k (1 to DIM_d)
// adds to the k-th slot behind it. Sums are exact in any order, modulo 2^32.
//
// A synapse is a word of 32 bits: delay - 1 (4 bits), the neuron at its other end (20 bits), weight (8 bits, signed).
//
//   push   a group takes a neuron of the list of spikes and adds the weights of its outgoing synapses by atomics (Spice:
//          Bautembach et al. 2021; GeNN's "presynaptic parallelism": Yavuz et al. 2016)
//   scan   the same, but a group finds the spikes itself, in 32 bits of the bitmask; no list is needed
//   pull   a group takes a neuron and adds up what comes in from those that spiked, by the bitmask; no atomics
//
// A block has block_size / group_size groups, and a group takes `items` spikes, words of the bitmask, or neurons; with a
// smaller grid it takes more. Vectors of load_width synapses are read, `loads` of them at once. The synapses of a neuron
// are `sorted` by delay and target, or in the order drawn. With shared_sums a block adds up in shared memory first; pull
// has sums of its own neurons there or in registers. With shared_mask it copies the bitmask there.

enum Variant { push, scan, pull };
using Sum = unsigned int;  // wraps around as whole numbers with a sign do

constexpr int SLOTS = DIM_d + 1;
constexpr int GROUPS = block_size / group_size;
constexpr int MASK_WORDS = (DIM_n + 31) / 32;

struct alignas(4 * load_width) Synapses {
    unsigned int words[load_width];
};

__device__ __forceinline__ int delay_of(unsigned int word) { return word >> 28; }  // less one
__device__ __forceinline__ int neuron_of(unsigned int word) { return word >> 8 & 0xfffff; }
__device__ __forceinline__ int weight_of(unsigned int word) { return static_cast<signed char>(word & 0xff); }

// Where current[slot] begins for a delay, less one.
__device__ __forceinline__ int slot_of(int delay, int now) {
    const int slot = now + 1 + delay;
    return (slot < SLOTS ? slot : slot - SLOTS) * DIM_n;
}

// Calls use(word) for the synapses from begin to end, a part of them each lane of a group. Vectors are aligned, and what
// they hold of others is left out.
template <class Use>
__device__ __forceinline__ void for_each_synapse(
    const unsigned int* __restrict__ synapses, int begin, int end, int lane, Use use) {
    constexpr int STEP = group_size * load_width;
    for (int first = begin / load_width * load_width + lane * load_width; first < end; first += loads * STEP) {
        Synapses loaded[loads];
#pragma unroll
        for (int load = 0; load < loads; ++load)
            if (first + load * STEP < end)
                loaded[load] = *reinterpret_cast<const Synapses*>(synapses + first + load * STEP);
#pragma unroll
        for (int load = 0; load < loads; ++load)
#pragma unroll
            for (int i = 0; i < load_width; ++i) {
                const int position = first + load * STEP + i;
                if (position >= begin && position < end) use(loaded[load].words[i]);
            }
    }
}

// Calls deliver(neuron) for the neurons that spiked, of which each group has its own.
template <class Deliver>
__device__ __forceinline__ void for_each_spike(
    const int* __restrict__ spikes, const int* __restrict__ count, const unsigned int* __restrict__ spiking,
    Deliver deliver) {
    const int first = blockIdx.x * GROUPS + threadIdx.x / group_size, step = gridDim.x * GROUPS;
    if constexpr (variant == push) {
        for (int i = first, last = *count; i < last; i += step) deliver(spikes[i]);
    } else {
        for (int word = first; word < MASK_WORDS; word += step)
            for (unsigned int bits = spiking[word]; bits; bits &= bits - 1) deliver(32 * word + __ffs(bits) - 1);
    }
}

// Outgoing synapses, by atomics: in shared memory [DIM_d][DIM_n] and from there, or straight to the current.
__device__ __forceinline__ void deliver_outgoing(
    Sum* current, const int* __restrict__ spikes, const int* __restrict__ count,
    const unsigned int* __restrict__ spiking, const int* __restrict__ row_starts,
    const unsigned int* __restrict__ outgoing, int now, Sum* shared) {
    if (shared_sums) {
        for (int i = threadIdx.x; i < DIM_d * DIM_n; i += block_size) shared[i] = 0;
        __syncthreads();
    }
    for_each_spike(spikes, count, spiking, [&](int neuron) {
        const int begin = row_starts[neuron], end = row_starts[neuron + 1];
        for_each_synapse(outgoing, begin, end, threadIdx.x % group_size, [&](unsigned int word) {
            const int delay = delay_of(word);
            Sum* const sums = shared_sums ? shared + delay * DIM_n : current + slot_of(delay, now);
            atomicAdd(sums + neuron_of(word), static_cast<Sum>(weight_of(word)));
        });
    });
    if (shared_sums) {
        __syncthreads();
#pragma unroll 1
        for (int delay = 0; delay < DIM_d; ++delay)
            for (int i = threadIdx.x; i < DIM_n; i += block_size)
                if (const Sum sum = shared[delay * DIM_n + i]) atomicAdd(current + slot_of(delay, now) + i, sum);
    }
}

__device__ __forceinline__ Sum add_within_group(Sum sum) {
#pragma unroll
    for (int distance = group_size / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance, group_size);
    return sum;
}

// Incoming synapses of the neurons of this block; all lanes of a warp stay together.
__device__ __forceinline__ void deliver_incoming(
    Sum* current, const unsigned int* __restrict__ spiking, const int* __restrict__ column_starts,
    const unsigned int* __restrict__ incoming, int now, Sum* shared) {
    const int group = threadIdx.x / group_size, lane = threadIdx.x % group_size;
    Sum* const of_group = shared + group;  // one a delay, GROUPS apart
    unsigned int* const mask = shared + (shared_sums ? DIM_d * GROUPS : 0);
    if (shared_mask) {
        for (int i = threadIdx.x; i < MASK_WORDS; i += block_size) mask[i] = spiking[i];
        __syncthreads();
    }
    const unsigned int* const bits = shared_mask ? mask : spiking;
    for (int base = blockIdx.x * GROUPS; base < DIM_n; base += gridDim.x * GROUPS) {
        const int neuron = base + group;
        const bool inside = neuron < DIM_n;
        const int begin = inside ? column_starts[neuron] : 0, end = inside ? column_starts[neuron + 1] : 0;
        Sum sums[DIM_d] = {};
        if (shared_sums) {
            for (int delay = lane; delay < DIM_d; delay += group_size) of_group[delay * GROUPS] = 0;
            __syncwarp();
        }
        for_each_synapse(incoming, begin, end, lane, [&](unsigned int word) {
            const int source = neuron_of(word);
            if ((bits[source / 32] >> source % 32 & 1) == 0) return;
            if (shared_sums)
                atomicAdd(of_group + delay_of(word) * GROUPS, static_cast<Sum>(weight_of(word)));
            else
#pragma unroll
                for (int delay = 0; delay < DIM_d; ++delay)
                    sums[delay] += DIM_d == 1 || delay_of(word) == delay ? weight_of(word) : 0;
        });
        __syncwarp();
#pragma unroll
        for (int delay = 0; delay < DIM_d; ++delay) {
            const Sum sum = shared_sums ? of_group[delay * GROUPS] : add_within_group(sums[delay]);
            if (sum && inside && lane == delay % group_size) current[slot_of(delay, now) + neuron] += sum;
        }
        if (shared_sums) __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(block_size) spike_delivery(
    Sum* __restrict__ current, const int* __restrict__ spikes, const int* __restrict__ count,
    const unsigned int* __restrict__ spiking, const int* __restrict__ row_starts,
    const unsigned int* __restrict__ outgoing, const unsigned int* __restrict__ outgoing_drawn,
    const int* __restrict__ column_starts, const unsigned int* __restrict__ incoming, int now) {
    extern __shared__ Sum shared_memory[];
    if constexpr (variant == pull)
        deliver_incoming(current, spiking, column_starts, incoming, now, shared_memory);
    else
        deliver_outgoing(
            current, spikes, count, spiking, row_starts, sorted ? outgoing : outgoing_drawn, now, shared_memory);
}
