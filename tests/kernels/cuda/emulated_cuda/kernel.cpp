// KERNEL of KERNEL_FILE, as something that takes the addresses of its arguments. The one at CONSTANT_POSITION, if that
// is defined, is also what the array CONSTANT holds.
#include <emulation.h>  // in angle brackets, so that it is found precompiled

#include KERNEL_FILE

namespace {

// Reading what is passed by value is no traffic.
template <class Type>
__attribute__((no_sanitize("kernel-address"))) Type argument(void* address) {
    if constexpr (std::is_pointer_v<Type>)
        return static_cast<Type>(address);
    else
        return *static_cast<Type*>(address);
}

template <class... Types, std::size_t... Positions>
void call(void (*kernel)(Types...), void* const* arguments, std::index_sequence<Positions...>) {
    kernel(argument<Types>(arguments[Positions])...);
}

template <class... Types>
void call(void (*kernel)(Types...), void* const* arguments, int count) {
    if (count != sizeof...(Types)) emulation::fail("the kernel takes another number of arguments");
    call(kernel, arguments, std::index_sequence_for<Types...>{});
}

}  // namespace

extern "C" void set_constants([[maybe_unused]] void* const* arguments) {
#ifdef CONSTANT
    std::memcpy(CONSTANT, arguments[CONSTANT_POSITION], sizeof CONSTANT);
#endif
}

extern "C" void call_kernel(void* const* arguments, int count) { call(KERNEL, arguments, count); }
