// Traffic: the bytes that a kernel reads and writes, in place of the sanitizer that its accesses are compiled to call
// (-fsanitize=kernel-address). Prints those read from and written to global memory, then shared memory.
#include "watch.h"

#include <cstdio>
#include <vector>

namespace {

struct Range {
    const char* start;
    std::size_t bytes;

    bool holds(const void* address) const { return address >= start && address < start + bytes; }
};

struct Traffic {
    std::vector<Range> ranges;
    unsigned long long bytes[2] = {};  // read, written

    bool counts(const void* address, std::size_t size, bool written) {
        for (const Range& range : ranges)
            if (range.holds(address)) {
                bytes[written] += size;
                return true;
            }
        return false;
    }
};

Traffic global, shared;

}  // namespace

void watch::shared_memory(char* start, std::size_t bytes, std::size_t) { shared.ranges.push_back({start, bytes}); }

void watch::argument(void* start, std::size_t bytes) { global.ranges.push_back({static_cast<char*>(start), bytes}); }

void watch::access(const void* address, std::size_t bytes, bool written) {
    if (!global.counts(address, bytes, written)) shared.counts(address, bytes, written);
}

void watch::report() {
    std::printf("%llu %llu %llu %llu\n", global.bytes[0], global.bytes[1], shared.bytes[0], shared.bytes[1]);
}

#define WATCH(BYTES)                                                                       \
    void __asan_load##BYTES(const void* address) { watch::access(address, BYTES, false); } \
    void __asan_store##BYTES(const void* address) { watch::access(address, BYTES, true); }

extern "C" {
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)
void __asan_loadN(const void* address, std::size_t bytes) { watch::access(address, bytes, false); }
void __asan_storeN(const void* address, std::size_t bytes) { watch::access(address, bytes, true); }
void __asan_handle_no_return() {}
}
