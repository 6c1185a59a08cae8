# What CMake includes into the project of the C++ client, for a second program.
add_executable(ending ending.cpp)
set_target_properties(ending PROPERTIES CXX_STANDARD 17)
target_link_libraries(ending PRIVATE outrider)
