# The CUDA device, or what stands in for it. OUTRIDER_CUDA: AUTO takes it where a CUDA compiler is found, ON demands
# one, OFF leaves it out.
set(OUTRIDER_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO, ON or OFF")
set_property(CACHE OUTRIDER_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT OUTRIDER_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "OUTRIDER_CUDA is ${OUTRIDER_CUDA}; it must be AUTO, ON or OFF")
endif()

if(NOT OUTRIDER_CUDA STREQUAL OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(OUTRIDER_CUDA STREQUAL ON AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "OUTRIDER_CUDA is ON, but no CUDA compiler was found; CUDACXX may name one")
  endif()
endif()

if(OUTRIDER_CUDA STREQUAL OFF OR NOT CMAKE_CUDA_COMPILER)
  add_library(cuda_device STATIC src/cuda/no_cuda.cpp)
else()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 89 90)  # newer ones compile the last one's intermediate code when they load it
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # so that the module can be imported where there is no driver
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  set(cuda_flags --expt-relaxed-constexpr --fmad=false --prec-div=true --prec-sqrt=true --ftz=false)
  file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*.cpp src/cuda/*.cu src/cuda/sampling/*.cpp src/cuda/sampling/*.cu)
  list(FILTER cuda_sources EXCLUDE REGEX "/no_cuda\\.cpp$")
  add_library(cuda_device STATIC ${cuda_sources})
  target_compile_options(cuda_device PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>)
  set(cuda_identity "${CMAKE_CUDA_COMPILER_VERSION} ${CMAKE_CUDA_ARCHITECTURES} ${CMAKE_CUDA_FLAGS} ${cuda_flags}")
endif()
target_include_directories(cuda_device PRIVATE include src)
