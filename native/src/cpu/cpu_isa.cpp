// The instruction sets that this build has and this machine can run. Each is a vec_<isa>.h, a line of
// native/CMakeLists.txt, and a function here that detects it.
#include <cstring>

#include "cpu/kernels.h"
#include "outrider/device/device.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace outrider {
namespace cpu {

// OUTRIDER_ISAS is ISA(name) for each instruction set of this build, best first.
#define ISA(name)             \
    namespace name {          \
    const Kernels& kernels(); \
    }
OUTRIDER_ISAS
#undef ISA

namespace {

constexpr const char* kEmulated = "emulated_";  // prefix of instruction sets for tests only

struct Isa {
    const char* name;
    bool (*runs_here)();
    const Kernels& (*kernels)();
};

bool runs_portable() {
    return true;
}

#if defined(__x86_64__) && defined(__linux__)
[[maybe_unused]] bool runs_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

[[maybe_unused]] bool runs_avx512() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("gfni");
}

bool cpu_has_amx() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    constexpr unsigned kNeeded = 1u << 22 | 1u << 24 | 1u << 25;  // leaf 7, EDX: AMX-BF16, AMX-TILE, AMX-INT8
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & kNeeded) == kNeeded;
}

/// Requests the permission to use tiles; Linux saves tile registers only for processes that have it.
bool may_use_tiles() {
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

[[maybe_unused]] bool runs_amx() {
    static const bool runs = runs_avx512() && cpu_has_amx() && may_use_tiles();
    return runs;
}

[[maybe_unused]] bool runs_emulated_avx512() {
    return runs_avx2();
}

[[maybe_unused]] bool runs_emulated_amx() {
    return runs_avx2();
}
#endif

#define ISA(name) {#name, runs_##name, name::kernels},
constexpr Isa kIsas[] = {OUTRIDER_ISAS};
#undef ISA

}  // namespace

const Kernels* find_kernels(const char* isa) {
    for (const Isa& candidate : kIsas) {
        if (std::strcmp(candidate.name, isa) == 0) {
            return candidate.runs_here() ? &candidate.kernels() : nullptr;
        }
    }
    return nullptr;
}

}  // namespace cpu

std::vector<std::string> cpu_isas() {
    std::vector<std::string> names;
    for (const cpu::Isa& isa : cpu::kIsas) {
        if (isa.runs_here() && std::strncmp(isa.name, cpu::kEmulated, std::strlen(cpu::kEmulated)) != 0) {
            names.emplace_back(isa.name);
        }
    }
    return names;
}

}  // namespace outrider
