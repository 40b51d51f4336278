# What the CMake projects here share: the language, and torch as Python finds it.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A macro, so that the caller sees what find_package sets.
macro(find_torch)
  find_package(Python COMPONENTS Interpreter REQUIRED)
  if(NOT Torch_DIR)
    execute_process(  # torch_npu, where it is installed, needs CANN to be loaded: not for a build
      COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0
        ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
  endif()
  find_package(Torch REQUIRED)
endmacro()
