// Who watches the memory of a kernel while it runs: watch_faults.cpp or watch_traffic.cpp.
#pragma once

#include <cstddef>

namespace watch {

// Of `most` bytes of shared memory a block has `bytes`.
void shared_memory(char* start, std::size_t bytes, std::size_t most);
void argument(void* start, std::size_t bytes);

// An access that the compiler does not see as one of the kernel.
void access(const void* address, std::size_t bytes, bool written);

void report();

}  // namespace watch
