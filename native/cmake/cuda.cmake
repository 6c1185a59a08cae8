# The CUDA device, or its replacement. OUTRIDER_CUDA: AUTO builds it if there is a CUDA compiler, ON requires
# one, OFF leaves it out.
set(OUTRIDER_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO, ON or OFF")
set_property(CACHE OUTRIDER_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT OUTRIDER_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "OUTRIDER_CUDA is ${OUTRIDER_CUDA}; it must be AUTO, ON or OFF")
endif()

set(oldest_nvcc 12.0)
set(has_cuda OFF)
if(NOT OUTRIDER_CUDA STREQUAL OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
    set(nvcc_version ${CMAKE_MATCH_1})
    if(nvcc_version VERSION_GREATER_EQUAL oldest_nvcc)
      set(has_cuda ON)
    endif()
  endif()
  if(NOT has_cuda AND OUTRIDER_CUDA STREQUAL ON)
    message(FATAL_ERROR "OUTRIDER_CUDA is ON, but there is no nvcc ${oldest_nvcc} or newer; CUDACXX may name one")
  endif()
endif()
message(STATUS "CUDA device: ${has_cuda}")

if(has_cuda)
  # Machine code for each generation, and the last one's intermediate code, which newer GPUs compile when they
  # load it. A test build is for this machine's GPU, or for one generation if there is none, since each takes
  # minutes. 90a has instructions of Hopper that later generations lack.
  if(NOT CMAKE_CUDA_ARCHITECTURES AND OUTRIDER_TESTING)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE no_gpu)
    string(REGEX MATCH "^[0-9]+\\.[0-9]" capability "${capabilities}")
    if(no_gpu OR NOT capability)
      set(capability 9.0)
    endif()
    string(REPLACE "." "" CMAKE_CUDA_ARCHITECTURES ${capability})
    string(REPLACE 90 90a CMAKE_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
  elseif(NOT CMAKE_CUDA_ARCHITECTURES AND nvcc_version VERSION_GREATER_EQUAL 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real 100-real 120)
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90a-real 90-virtual)
  endif()
  message(STATUS "CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # so that the module can be imported without a driver
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc 12's option
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(exact_cuda_arithmetic --fmad=false --ftz=false --prec-div=true --prec-sqrt=true)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/cuda/*.cpp src/cuda/*.cu)
  list(FILTER cuda_sources EXCLUDE REGEX "/no_cuda\\.cpp$")
  add_library(cuda_device STATIC ${cuda_sources})
  target_compile_options(cuda_device PRIVATE
                         "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;${exact_cuda_arithmetic}>")
  set(cuda_identity "${CMAKE_CUDA_COMPILER_VERSION} ${CMAKE_CUDA_ARCHITECTURES} ${CMAKE_CUDA_FLAGS} "
                    "${exact_cuda_arithmetic}")
else()
  add_library(cuda_device STATIC src/cuda/no_cuda.cpp)
endif()
target_link_libraries(cuda_device PRIVATE core)  # they link each other, since each calls the other
